//! What a notification comes to: addresses to suppress, or why it is refused.

use mailroom_mail::normal_address;

/// The longest detail, in bytes. The database keeps less of it.
const MAX_DETAIL: usize = 500;

/// Why an address is suppressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No mail can reach it, whenever it is sent.
    Bounce,
    /// Its owner reported a mail as unwanted.
    Complaint,
}

impl Reason {
    /// As the database calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bounce => "bounce",
            Self::Complaint => "complaint",
        }
    }
}

/// An address to suppress. It has no debugging form, which could get into a log.
#[derive(PartialEq, Eq)]
pub struct Notice {
    /// The address, in the form that the database compares.
    pub addresses: Vec<String>,
    /// Why.
    pub reason: Reason,
    /// What was said, in ASCII. The database takes addresses and what looks like a token out of it.
    pub detail: String,
}

/// Why a notification changes nothing. The sentences are fixed, so that nothing of what was sent
/// gets into a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not proven to come from the provider.
    Unproven(&'static str),
    /// It is, but cannot be understood.
    Unreadable(&'static str),
    /// It may be right, and should come again.
    Unavailable(&'static str),
}

impl Notice {
    /// Reads addresses that were reported together.
    ///
    /// # Errors
    /// One of them is no address. Then nothing is suppressed.
    pub(crate) fn all<'a>(
        reported: impl IntoIterator<Item = &'a str>,
        reason: Reason,
        detail: &[&str],
    ) -> Result<Vec<Self>, Refusal> {
        let detail =
            detail.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(": ");
        let is_plain = |character: &char| *character == ' ' || character.is_ascii_graphic();
        // Beyond ASCII there is text that hides or turns what stands around it.
        let detail: String = detail.chars().filter(is_plain).take(MAX_DETAIL).collect();
        let read = |text| {
            let addresses =
                forms(text).ok_or(Refusal::Unreadable("it names something that is no address"))?;
            Ok(Self { addresses, reason, detail: detail.clone() })
        };
        let notices = reported.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if notices.is_empty() {
            Err(Refusal::Unreadable("it names no address"))
        } else {
            Ok(notices)
        }
    }
}

/// The address, which may have a name before it, in the one form that the database keeps
/// of all its spellings.
fn forms(text: &str) -> Option<Vec<String>> {
    let address = match text.trim_end().strip_suffix('>') {
        Some(text) => text.rsplit_once('<')?.1,
        None => text,
    };
    Some(vec![normal_address(address)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Option<Vec<String>> {
        Notice::all([text], Reason::Bounce, &[]).ok().map(|mut notices| notices.remove(0).addresses)
    }

    #[test]
    fn an_address_has_one_form_however_it_is_reported() {
        for (text, expected) in [
            ("Ada@X.test", &["ada@x.test"][..]),
            ("ada@xn--bcher-kva.test", &["ada@xn--bcher-kva.test"]),
            ("ada@BÜCHER.test", &["ada@xn--bcher-kva.test"]),
            ("ada@ｘ.test", &["ada@x.test"]),
            ("\"foo..bar\"@x.test", &["foo..bar@x.test"]),
            ("\"Ada, L.\" <ada@x.test>", &["ada@x.test"]),
            ("<ada@x.test>", &["ada@x.test"]),
        ] {
            assert_eq!(addresses(text).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_address_suppresses_nothing() {
        let long = format!("{}@x.test", "a".repeat(250));
        for text in [
            "",
            "@",
            "ada",
            "ada@",
            "@x.test",
            "a@b@x.test",
            "ada@x.test\n",
            "ada@x.test\r\nb@x.test",
            "a b@x.test",
            "ada@x.test,b@x.test",
            "ada@x.test\0",
            "Ada <ada@x.test",
            "<ada>",
            "a\u{2028}@x.test",
            &long,
        ] {
            assert!(addresses(text).is_none(), "{text:?}");
        }
        let several = Notice::all(["ada@x.test", "nobody"], Reason::Bounce, &[]);
        assert_eq!(
            several.err(),
            Some(Refusal::Unreadable("it names something that is no address"))
        );
        assert_eq!(
            Notice::all([], Reason::Bounce, &[]).err(),
            Some(Refusal::Unreadable("it names no address"))
        );
    }

    #[test]
    fn a_detail_is_a_short_line_of_ascii() {
        let long = "x".repeat(1_000);
        let notices = Notice::all(
            ["a@x.test"],
            Reason::Complaint,
            &["abuse", "", "a\r\n\u{202e}b\u{1b}[1m", &long],
        );
        let detail = notices.ok().unwrap().remove(0).detail;
        assert!(detail.starts_with("abuse: ab[1m: xxx") && detail.len() == MAX_DETAIL, "{detail}");
    }
}
