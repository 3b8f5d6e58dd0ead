//! Signs and verifies the links that activate an account or recover a password.
//!
//! The database makes a 32-byte [`Secret`] for every link; whoever holds the [`SharedKey`] signs
//! it, and whoever holds the key verifies the link that comes back, without a database call.
//! `docs/reference/token-format.md` in the repository defines every byte.
//!
//! ```
//! use mailroom_verifier_core::{
//!     Action, Expected, Expiry, KeyRing, Moment, Secret, SharedKey, UntrustedToken, v2,
//! };
//!
//! let hex = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";
//! let key = SharedKey::from_hex(hex)?;
//! let expiry = Expiry::from_seconds(1_800_000_900)?;
//! let signed = v2::sign_activation(&key, &Secret::from([7; 32]), expiry);
//!
//! let ring = KeyRing::of(key);
//! let token = UntrustedToken::parse(signed.as_str())?;
//! let verified = token.verify(&ring, Expected::activation(), Moment::at(1_800_000_000))?;
//! assert_eq!(verified.action(), Action::Activate);
//! assert_eq!(verified.secret().as_bytes(), &[7; 32]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A link with a code
//! The link is judged before the visitor types the code that stands in the mail. A wrong code is
//! counted by a [`Guard`]; here nothing counts.
//!
//! ```
//! use mailroom_verifier_core::{
//!     Action, Code, Expiry, KeyRing, Moment, Secret, SharedKey, UntrustedToken, VerifyError, v2,
//! };
//!
//! let hex = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";
//! let key = SharedKey::from_hex(hex)?;
//! let (secret, code) = (Secret::from([7; 32]), Code::parse("01234")?);
//! let expiry = Expiry::from_seconds(1_800_000_900)?;
//! let signed = v2::sign(&key, Action::Recover, &secret, expiry, Some(&code))?;
//!
//! let ring = KeyRing::of(key);
//! let now = Moment::at(1_800_000_000);
//! let link = UntrustedToken::parse(signed.as_str())?.verify_link(&ring, Action::Recover, now)?;
//! assert_eq!(link.clone().with_code(Some(b"99999"), None).err(), Some(VerifyError::CodeMismatch));
//! assert!(link.with_code(Some(b"01234"), None)?.code_is_proven());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Why is a link refused?
//! [`VerifyError::reason`] is a stable word for logs; the variant says what to tell the visitor.
//!
//! ```
//! use mailroom_verifier_core::{
//!     Expected, Expiry, KeyRing, Moment, Secret, SharedKey, UntrustedToken, VerifyError, v2,
//! };
//!
//! let hex = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";
//! let key = SharedKey::from_hex(hex)?;
//! let expiry = Expiry::from_seconds(1_800_000_900)?;
//! let signed = v2::sign_activation(&key, &Secret::from([7; 32]), expiry);
//! let ring = KeyRing::of(key);
//! let judge = |text: &str, seconds| -> Result<(), VerifyError> {
//!     let token = UntrustedToken::parse(text)?;
//!     token.verify(&ring, Expected::activation(), Moment::at(seconds)).map(drop)
//! };
//!
//! let late = judge(signed.as_str(), 1_800_000_901).unwrap_err();
//! assert_eq!(late.reason(), "ERR_TOKEN_EXPIRED");
//! let cut = judge(&signed.as_str()[1..], 1_800_000_000).unwrap_err();
//! assert_eq!(cut.reason(), "ERR_TOKEN_MALFORMED");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Several keys, and actions of your own
//! A ring accepts the links of every key in it, so that a key can be rotated: first give verifiers
//! the new one, then sign with it.
//!
//! ```
//! use mailroom_verifier_core::{
//!     Actions, Expected, Expiry, Further, KeyRing, Moment, Secret, SharedKey, UntrustedToken,
//!     VerifyingKey, v2,
//! };
//!
//! let invite = Further { number: 4, name: "invite", path: "/invite", digits: 0 };
//! let actions = Actions::new([invite])?;
//! let action = actions.named("invite").expect("it was added");
//! let old = SharedKey::from_hex("a1".repeat(32))?;
//! let new = SharedKey::from_hex("b2".repeat(32))?;
//! let expiry = Expiry::from_seconds(1_800_000_900)?;
//! let signed = v2::sign(&new, action, &Secret::from([7; 32]), expiry, None)?;
//!
//! let ring = KeyRing::new([old, new].map(VerifyingKey::Shared))?.knowing(&actions);
//! let expected = Expected { action, code: None, binding: None };
//! let token = UntrustedToken::parse(signed.as_str())?;
//! assert!(token.verify(&ring, expected, Moment::at(1_800_000_000)).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//! - No allocator and no panic: the crate is `no_std`, and a test links it for a bare machine and
//!   looks for both.
//! - One spelling per token: a string that decodes leniently to the same bytes is refused.
//! - Tags are compared in constant time; no error, `Debug` or `Display` shows a key,
//!   secret, code or token.
//! - It reads no clock, no environment and no randomness; whatever it needs is an argument.
//!
//! # Features
//! | feature | default | what it adds |
//! |---|---|---|
//! | `public` | yes | keys and tokens of v3, by Ed25519; without it v3 tokens are refused |
//! | `std` | yes | a [`MemoryCache`] that threads share behind a mutex |
//! | `fast` | no | v3 is signed three times as fast, for 30 kB of tables |
//! | `compact` | no | v3 is verified by less code, for those who load WebAssembly |
//! | `external` | no | another implementation of Ed25519 can check the signature of a v3 link |
//! | `zeroize` | yes | overwrites keys, secrets, codes, signed tokens and tags with zeros |
//!
//! # What may grow
//! Errors that say why something is refused, versions, and the kinds of keys and signers may get
//! new variants, so they are `#[non_exhaustive]`. What a caller has to decide on completely is not:
//! actions, the answers of a store, whose fault an error is.
//! A new variant of those is a new major version.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "std")]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod action;
mod actions;
mod async_store;
mod base64;
mod binding;
mod bytes;
mod cache;
mod code;
#[cfg(any(feature = "compact", all(feature = "public", test)))]
mod compact;
mod consumed;
#[cfg(all(feature = "public", any(not(feature = "compact"), test)))]
mod dalek;
#[cfg(feature = "public")]
mod ed25519;
mod error;
mod expiry;
#[cfg(feature = "external")]
mod external;
mod fields;
mod guard;
mod header;
mod hmac;
mod key_index;
mod owner;
mod redeem_error;
mod redemption;
mod ring;
mod secret;
mod shared_key;
mod signed;
mod signer;
mod token;
mod unsignable;
pub mod v1;
pub mod v2;
pub mod v3;
mod verified;
mod version;
#[cfg(test)]
mod wycheproof;

pub use action::{Action, Further, UnknownAction};
pub use actions::{Actions, InvalidAction, KnownActions};
pub use async_store::AsyncConsumedTokens;
pub use binding::{Binding, Browser};
pub use cache::{MemoryCache, Slot, Unusable};
pub use code::{Code, InvalidCode};
pub use consumed::{
    Attempt, ConsumedId, ConsumedTokens, Consumption, Full, MAX_OWNERS, StoreError,
};
#[cfg(feature = "public")]
pub use ed25519::{PrivateKey, PrivateKeyText, PublicKey};
pub use error::{Kind, Malformed, VerifyError};
pub use expiry::{Expiry, InvalidExpiry, MAX_CLOCK_TOLERANCE, Moment};
#[cfg(feature = "external")]
pub use external::Judgement;
pub use guard::{Guard, InvalidAttempts};
pub use header::KeyId;
pub use owner::Owner;
pub use redeem_error::RedeemError;
pub use ring::{KeyRing, NoKey, VerifyingKey};
pub use secret::{InvalidSecret, Secret};
pub use shared_key::{InvalidKey, SharedKey};
pub use signed::SignedToken;
pub use signer::{Grant, Signer};
pub use token::{Expected, UntrustedToken, VerifiedLink};
pub use unsignable::Unsignable;
pub use verified::VerifiedToken;
pub use version::Version;
