//! Numbers of things, as a person says them.

use std::fmt::{self, Display};

/// How many of what: `1 token`, `2 tokens`.
pub struct Counted<N>(pub N, pub &'static str, pub &'static str);

impl<N: Display + PartialEq + From<u8>> Display for Counted<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, one, many) = self;
        write!(formatter, "{count} {}", if *count == N::from(1) { one } else { many })
    }
}
