//! What `mailroom send` and `mailroom bounces` share: the one form of an [`address`], return
//! addresses that prove a mail, secrets, and configurations in TOML.

pub mod address;
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
