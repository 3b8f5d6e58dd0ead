//! What `mailroom send` and `mailroom bounces` share: the one form of an [`address`], return
//! addresses that prove a mail, the [`diagnosis`] of what a server says of a recipient, secrets,
//! and configurations in TOML.

pub mod address;
pub mod diagnosis;
mod error;
#[cfg(feature = "return-path")]
mod return_path;
mod secret;
pub mod toml_file;

pub use address::{addressed, normal_address};
pub use error::Error;
#[cfg(feature = "return-path")]
pub use return_path::ReturnPath;
pub use secret::Secret;
