//! The body of a request, and when it may have arrived.

use std::io::{self, Read};

use crate::provider::{Progress, Verdict};

/// The body of a request. That it begins is recorded as late as possible: before, while the
/// connection is opened and while the headers are sent, nobody can have the mail.
pub(super) struct Content<'a> {
    rest: &'a [u8],
    pub(super) is_begun: bool,
    /// Where the beginning is recorded.
    progress: Option<&'a dyn Progress>,
    /// Why it could not be recorded.
    fault: Option<String>,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_begun
            && let Some(progress) = self.progress
            && let Err(reason) = progress.enter_doubt()
        {
            self.fault = Some(reason);
            return Err(io::Error::other("the attempt cannot be recorded"));
        }
        self.is_begun = true;
        self.rest.read(buffer)
    }
}

impl<'a> Content<'a> {
    pub(super) fn new(body: &'a str, progress: Option<&'a dyn Progress>) -> Self {
        Self { rest: body.as_bytes(), is_begun: false, progress, fault: None }
    }

    /// Without an answer the mail may have been accepted, unless its body has not begun.
    pub(super) fn verdict(self, name: &str, error: &ureq::Error) -> Verdict {
        if let Some(reason) = self.fault {
            return Verdict::Unavailable { after: None, reason };
        }
        if !self.is_begun {
            let reason = format!("{name}: no connection: {error}");
            return Verdict::Unavailable { after: None, reason };
        }
        Verdict::Overloaded { after: None, reason: format!("{name}: no answer: {error}") }
    }
}
