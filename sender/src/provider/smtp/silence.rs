//! Mails over which a server falls silent: whether that is their own fault.
//!
//! Pure policy. A server that verifies recipients by a call to their servers answers late for a
//! dead domain, and some filters close the connection over a mail: then the next mail fares better.

/// Which mails got no answer, since one got one.
#[derive(Debug, Default)]
pub(super) struct Silence {
    recipient: Option<String>,
    is_general: bool,
}

impl Silence {
    /// A mail got an answer.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// The mail to this recipient got no answer. Returns whether no other would get one.
    pub(super) fn add(&mut self, recipient: &str) -> bool {
        match &self.recipient {
            Some(other) => self.is_general |= other != recipient,
            None => self.recipient = Some(recipient.to_owned()),
        }
        self.is_general
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_over_one_recipient_is_that_ones_until_another_one_gets_no_answer_either() {
        let mut silence = Silence::default();
        assert!(!silence.add("a@x.test") && !silence.add("a@x.test"));
        assert!(silence.add("b@x.test") && silence.add("a@x.test"));
        silence.end();
        assert!(!silence.add("b@x.test"));
    }
}
