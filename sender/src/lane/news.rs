//! What the operator hears of domains over which the server takes its time: once when that begins,
//! and once when they are answered at once again.
//!
//! Pure policy: the caller passes the times in. Strangers may give addresses of many such domains,
//! so that a sentence names few of them, and there is one a minute at most of new ones.

use std::collections::HashSet;
use std::time::{Duration, Instant};

/// The most domains of which it is known what was said.
const MAX_DOMAINS: usize = 1_000;

/// How far two sentences of new ones are apart.
const PAUSE: Duration = Duration::from_secs(60);

/// So many domains are named in one.
const NAMED: usize = 5;

#[derive(Debug, Default)]
pub(super) struct News {
    /// The domains that are slow, whether that was said or is to be said.
    slow: HashSet<String>,
    /// What is to be said.
    begun: Vec<String>,
    ended: Vec<String>,
    /// When new ones were last named.
    said_at: Option<Instant>,
}

/// What is to be said now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sentences {
    /// Domains over which the server has begun to take its time; empty if there are none.
    pub(crate) begun: String,
    /// Those over which it does so no more.
    pub(crate) ended: String,
}

impl News {
    /// The server takes its time over a mail to this domain.
    pub(super) fn begin(&mut self, domain: &str) {
        if self.slow.len() < MAX_DOMAINS && !self.slow.contains(domain) {
            self.slow.insert(domain.to_owned());
            self.begun.push(domain.to_owned());
        }
    }

    /// A mail to this domain was accepted at once.
    pub(super) fn end(&mut self, domain: &str) {
        if !self.slow.remove(domain) {
            return;
        }
        if let Some(place) = self.begun.iter().position(|begun| begun == domain) {
            self.begun.remove(place);
        } else {
            self.ended.push(domain.to_owned());
        }
    }

    pub(super) fn take(&mut self, now: Instant) -> Option<Sentences> {
        let is_early = self.said_at.is_some_and(|at| now.saturating_duration_since(at) < PAUSE);
        let begun = if is_early { Vec::new() } else { std::mem::take(&mut self.begun) };
        let ended = std::mem::take(&mut self.ended);
        if !begun.is_empty() {
            self.said_at = Some(now);
        }
        let is_news = !(begun.is_empty() && ended.is_empty());
        is_news.then(|| Sentences { begun: list(&begun), ended: list(&ended) })
    }
}

fn list(domains: &[String]) -> String {
    let named = domains.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match domains.len().saturating_sub(NAMED) {
        0 => named,
        1 => format!("{named} and another domain"),
        others => format!("{named} and {others} other domains"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_that_a_domain_becomes_slow_and_once_that_it_is_so_no_more() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let said = |begun: &str, ended: &str| {
            Some(Sentences { begun: begun.to_owned(), ended: ended.to_owned() })
        };
        let mut news = News::default();
        news.end("a.test");
        assert_eq!(news.take(at(0)), None);
        news.begin("a.test");
        news.begin("a.test");
        assert_eq!(news.take(at(0)), said("a.test", ""));
        // One that is slow for a moment is not worth a sentence.
        news.begin("b.test");
        news.end("b.test");
        news.begin("a.test");
        news.end("a.test");
        assert_eq!(news.take(at(1)), said("", "a.test"));
        for number in 0..2_000 {
            news.begin(&format!("{number}.test"));
        }
        assert_eq!(news.take(at(59)), None);
        let expected = "0.test, 1.test, 2.test, 3.test, 4.test and 995 other domains";
        assert_eq!(news.take(at(60)), said(expected, ""));
        assert_eq!(news.take(at(120)), None);
    }
}
