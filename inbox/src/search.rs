//! Which mails a request asks for: `to=…&action=…&after=…&limit=20&wait=10s`.

use std::borrow::Cow;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use crate::mails::Mail;

/// The longest time that a request may wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Which mails, and how long to wait for one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    to: Option<String>,
    action: Option<String>,
    /// Only mails with a larger id.
    after: u64,
    /// Only the newest of them.
    pub(crate) limit: Option<usize>,
    pub(crate) wait: Duration,
}

impl Search {
    /// Reads the part of an address behind `?`.
    ///
    /// # Errors
    /// A word or a value that is none.
    pub(crate) fn parse(query: &str) -> Result<Self, &'static str> {
        let mut search = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value).ok_or("a value is not encoded as in addresses")?;
            match name {
                "to" => search.to = Some(value),
                "action" => search.action = Some(value),
                "after" => search.after = value.parse().map_err(|_| "after must be an id")?,
                "limit" => {
                    let limit = value.parse().map_err(|_| "limit must be a number of mails")?;
                    search.limit = Some(limit);
                }
                "wait" => {
                    search.wait = duration(&value)
                        .filter(|wait| *wait <= MAX_WAIT)
                        .ok_or("wait must be a time up to 60s, such as 10s or 500ms")?;
                }
                _ => return Err("only to, action, after, limit and wait can be asked for"),
            }
        }
        Ok(search)
    }

    pub(crate) fn wants(&self, mail: &Mail) -> bool {
        mail.id > self.after
            && self.to.as_ref().is_none_or(|to| mail.token.to.eq_ignore_ascii_case(to))
            && self.action.as_ref().is_none_or(|action| *action == mail.token.action)
    }
}

/// Undoes percent-encoding. A plus sign stays one: addresses have it, and nothing here has spaces.
/// So does a sign that encodes nothing, as browsers read it.
fn decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// A time as the collector's settings have it; without a unit in milliseconds.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_browsers_and_people_write_it() {
        for query in ["to=ada+1%40x.test&wait=10s", "wait=10000&to=ada%2b1@x.test&"] {
            let search = Search::parse(query).unwrap();
            let to = Some("ada+1@x.test".to_owned());
            assert_eq!(search, Search { to, wait: Duration::from_secs(10), ..Search::default() });
        }
        let literally = Search { to: Some("ada%4@x.test".to_owned()), ..Search::default() };
        assert_eq!(Search::parse("to=ada%4@x.test").unwrap(), literally);
        for query in ["form=x", "limit=-1", "wait=61s", "wait=", "wait=1h", "after=-1", "to=%ff"] {
            assert!(Search::parse(query).is_err(), "{query}");
        }
    }
}
