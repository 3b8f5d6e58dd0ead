//! What the environment of this process says.

use std::env;
use std::ffi::OsString;

/// The value of an environment variable, unless it is empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
