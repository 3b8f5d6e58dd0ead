//! What people read: sentences on standard error.

use std::io::Write;

/// Says something on standard error, which the collector logs. If that is closed, the work goes on.
pub(crate) fn report(sentence: &str) {
    writeln!(std::io::stderr(), "mailroom send: {sentence}").ok();
}
