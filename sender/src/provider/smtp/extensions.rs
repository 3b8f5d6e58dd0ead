//! What a server offers in its reply to EHLO.

use super::reply::Reply;

/// The extensions that matter, by their keywords, which are case-insensitive (RFC 5321, 2.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether a keyword is there")]
pub(super) struct Extensions {
    pub(super) starttls: bool,
    pub(super) smtputf8: bool,
    /// 8BITMIME.
    pub(super) eight_bit: bool,
    pub(super) dsn: bool,
    /// The largest mail in bytes, where the server says one.
    pub(super) size: Option<u64>,
    /// The mechanisms of AUTH, in capitals.
    pub(super) mechanisms: Vec<String>,
}

impl Extensions {
    /// Reads a reply to EHLO, whose first line is a greeting.
    pub(super) fn of(reply: &Reply) -> Self {
        let mut found = Self::default();
        for line in reply.lines().skip(1) {
            let line = String::from_utf8_lossy(line).to_ascii_uppercase();
            // `AUTH=LOGIN` is how the drafts of AUTH wrote it, which old servers and clients know.
            let mut words = line.split([' ', '\t', '=']).filter(|word| !word.is_empty());
            match words.next().unwrap_or_default() {
                "STARTTLS" => found.starttls = true,
                "SMTPUTF8" => found.smtputf8 = true,
                "8BITMIME" => found.eight_bit = true,
                "DSN" => found.dsn = true,
                "SIZE" => {
                    // RFC 1870: zero means that there is no fixed limit.
                    let size = words.next().and_then(|size| size.parse().ok());
                    found.size = size.filter(|size| *size > 0);
                }
                "AUTH" => {
                    for word in words {
                        if !found.mechanisms.iter().any(|other| other == word) {
                            found.mechanisms.push(word.to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::reply::Reader;
    use super::*;

    fn of(text: &str) -> Extensions {
        Extensions::of(&Reader::default().read(text.as_bytes()).unwrap().1.unwrap())
    }

    #[test]
    fn keywords_are_read_in_any_case_and_spelling() {
        let all = Extensions {
            starttls: true,
            smtputf8: true,
            eight_bit: true,
            dsn: true,
            size: Some(10_240_000),
            mechanisms: vec!["PLAIN".to_owned(), "LOGIN".to_owned()],
        };
        for text in [
            "250-mx\r\n250-STARTTLS\r\n250-SMTPUTF8\r\n250-8BITMIME\r\n250-DSN\r\n\
             250-SIZE 10240000\r\n250 AUTH PLAIN LOGIN\r\n",
            "250-mx\n250-starttls\n250-SmtpUtf8\n250-8bitmime\n250-dsn\n250-size 10240000\n\
             250-x\n250-auth=plain login\n250 auth login plain\n",
        ] {
            assert_eq!(of(text), all);
        }
        assert_eq!(
            of("250-AUTH PLAIN\r\n250-SIZE 0\r\n250-XDSN\r\n250 SIZE x\r\n"),
            Extensions::default()
        );
        assert_eq!(of("250 mx STARTTLS DSN\r\n"), Extensions::default());
        assert_eq!(of("250-mx\r\n250-AUTH=LOGIN\r\n250 AUTH\r\n").mechanisms, ["LOGIN"]);
    }
}
