//! What came back of a request.

use std::time::{Duration, SystemTime};

use ureq::http::HeaderMap;

use crate::provider::refusal::{self, Said, Step};
use crate::provider::{MAX_ASKED, Verdict};

/// Why the body of an answer is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::provider) enum Fault {
    /// It did not come whole.
    Cut,
    /// It is too long, or no JSON.
    Unreadable,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(in crate::provider) struct Answer {
    pub(in crate::provider) status: u16,
    pub(in crate::provider) headers: HeaderMap,
    /// Its JSON; null if there is none.
    pub(in crate::provider) body: serde_json::Value,
    /// Why the body says nothing, though there may be something in it.
    pub(in crate::provider) fault: Option<Fault>,
    /// Whom the mail was to; the provider may repeat it.
    pub(in crate::provider) recipient: String,
}

impl Answer {
    /// What the provider's words are, after the status.
    pub(in crate::provider) fn reason(&self, words: &str) -> String {
        format!("{} {words}", self.status).trim_end().to_owned()
    }

    /// The verdict of a refusal that the provider calls `name`, with its `text`; `words` are shown.
    pub(in crate::provider) fn refused(
        &self,
        step: Step,
        name: &str,
        text: &str,
        words: &str,
    ) -> Verdict {
        let code = self.status;
        let recipient = self.recipient.as_str();
        let said = Said { step, code, name, text, recipient, sender: "" };
        refusal::verdict(&said, self.retry_after(), self.reason(words))
    }

    /// Whether the provider says that it is JSON.
    #[cfg(any(feature = "keyed", feature = "ses"))]
    pub(super) fn says_json(&self) -> bool {
        let kind = self.header("Content-Type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        kind.starts_with("application/") && kind.contains("json")
    }

    /// The text of a header.
    pub(in crate::provider) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The pause that the provider asks for: `Retry-After`, in seconds or until a date. No longer
    /// than the longest that is granted.
    pub(in crate::provider) fn retry_after(&self) -> Option<Duration> {
        let text = self.header("Retry-After")?;
        let asked = text.parse().map(Duration::from_secs).ok().or_else(|| {
            let until = httpdate::parse_http_date(text).ok()?;
            Some(until.duration_since(SystemTime::now()).unwrap_or_default())
        });
        asked.map(|asked| asked.min(MAX_ASKED))
    }
}

/// The JSON of a body that was read; null if it certainly is empty.
pub(super) fn read_body(
    status: u16,
    headers: &HeaderMap,
    body: Result<Vec<u8>, ureq::Error>,
) -> Result<serde_json::Value, Fault> {
    let body = body.map_err(|error| match error {
        ureq::Error::BodyExceedsLimit(_) => Fault::Unreadable,
        _ => Fault::Cut,
    })?;
    // Without its length the body of a connection that was cut is empty, too.
    let has_end = ["Content-Length", "Transfer-Encoding"];
    if body.is_empty() && (status == 204 || has_end.iter().any(|name| headers.contains_key(*name)))
    {
        return Ok(serde_json::Value::Null);
    }
    // A byte order mark, which is no JSON and says nothing (RFC 8259, 8.1).
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body);
    serde_json::from_slice(text).map_err(|_| Fault::Unreadable)
}
