//! What must hold for any input at all.
//!
//! Each function takes bytes that anybody may have made up and panics if the verifier breaks a
//! promise on them. A fuzz target in `fuzz/` calls each of them with inputs that reach new code;
//! the ordinary tests call them with the inputs that were kept in `fuzz/corpus/`.
//!
//! | function | input | what is compared |
//! |---|---|---|
//! | [`token`] | a token, and behind a space the code typed beside it | fields and verdict with [`oracle`], the text with its encoding |
//! | [`judgement`] | who signs what, how it is altered, who verifies it | signature and verdict with [`oracle`] |
//! | [`shared_key`] | a key in hexadecimal | a decoder by the book |
//! | [`private_key`] | `mrsk_…` | the public key with another implementation |
//! | [`public_key`] | `mrpk_…` | whether it is a point, and of small order, with the equation of the curve |
//! | [`prepared_key`] | what callers keep of a key | the bytes after a round trip |
//! | [`code`] | what was typed | the rule of five to eight digits |
//! | [`nonce`] | the value of a cookie | the rule of 32 bytes in base64url, and the digest |
//! | [`memory_cache`] | operations on a store | a plain map |
//! | [`connection_settings`] | parameters of a connection | their two forms with each other, and that no password is shown |
//! | [`connection_string`] | any text | nothing: it must be refused or understood |
//! | [`bounce_webhook`] | a webhook, behind a letter for its provider | what providers call certain |
//! | [`bounce_mail`] | a mail to a return address | the rules of RFC 3464 |
//! | [`sender_answer`] | a line of a sender | the table of the protocol |
//! | [`redeem`] | links redeemed through a guard | the rules of the guard, written out |

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
