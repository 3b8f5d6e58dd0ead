//! What must hold for any input at all.
//!
//! Each function takes bytes that anybody may have made up and panics if the verifier breaks a
//! promise on them. A fuzz target in `fuzz/` calls each of them with inputs that reach new code;
//! the ordinary tests call them with the inputs that were kept in `fuzz/corpus/`.
//!
//! - [`token`] takes a token and, behind a space, the code typed beside it. It compares fields and
//!   verdict with [`oracle`], and the text with its encoding.
//! - [`judgement`] takes who signs what, how it is altered and who verifies it. It compares
//!   signature and verdict with [`oracle`].
//! - [`shared_key`] takes a key in hexadecimal and compares it with a decoder by the book.
//! - [`private_key`] takes `mrsk_…` and compares the public key with another implementation.
//! - [`public_key`] takes `mrpk_…` and compares whether it is a point, and of small order, with the
//!   equation of the curve.
//! - [`prepared_key`] takes what callers keep of a key and compares the bytes after a round trip.
//! - [`code`] takes what was typed and compares it with the rule of five to eight digits.
//! - [`nonce`] takes the value of a cookie and compares it with the rule of 32 bytes in base64url,
//!   and with the digest.
//! - [`memory_cache`] takes operations on a store and compares them with a plain map.
//! - [`connection_settings`] takes parameters of a connection, compares their two forms with each
//!   other, and checks that no password is shown.
//! - [`connection_string`] takes any text, which must be refused or understood.
//! - [`bounce_webhook`] takes a webhook, behind a letter for its provider, and compares with what
//!   providers call certain.
//! - [`bounce_mail`] takes a mail to a return address and compares with the rules of RFC 3464.
//! - [`sender_answer`] takes a line of a sender and compares with the table of the protocol.
//! - [`redeem`] takes links redeemed through a guard and compares with the rules of the guard,
//!   written out.

#![allow(clippy::missing_panics_doc, reason = "panicking is what these functions are for")]

mod answer;
mod bounces;
mod connection;
mod curve;
mod judgement;
mod keys;
pub mod oracle;
mod redeem;
mod ring;
pub mod store;
mod token;

pub use answer::sender_answer;
pub use bounces::{bounce_mail, bounce_webhook};
pub use connection::{connection_settings, connection_string};
pub use judgement::judgement;
pub use keys::{code, nonce, prepared_key, private_key, public_key, shared_key};
pub use redeem::redeem;
pub use ring::KNOWN;
pub use store::memory_cache;
pub use token::token;

/// A function that panics if a promise is broken on its input.
pub type Property = fn(&[u8]);

/// Every property by the name of its fuzz target.
pub const PROPERTIES: [(&str, Property); 15] = [
    ("bounce_mail", bounce_mail),
    ("bounce_webhook", bounce_webhook),
    ("code", code),
    ("connection_settings", connection_settings),
    ("connection_string", connection_string),
    ("judgement", judgement),
    ("memory_cache", memory_cache),
    ("nonce", nonce),
    ("prepared_key", prepared_key),
    ("private_key", private_key),
    ("public_key", public_key),
    ("redeem", redeem),
    ("sender_answer", sender_answer),
    ("shared_key", shared_key),
    ("token", token),
];
