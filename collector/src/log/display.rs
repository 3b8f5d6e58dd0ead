//! Counts, lists of tokens and durations in messages and log fields.

use std::fmt::{self, Display};
use std::time::Duration;

use mailroom_traces::Traceparent;
use tracing::field::DebugValue;

/// How many tokens a line names that the database records as well.
pub(crate) const NAMED: usize = 10;

/// How many of what: `1 token`, `2 tokens`.
pub(crate) struct Counted<N>(pub N, pub &'static str, pub &'static str);

impl<N: Display + PartialEq + From<u8>> Display for Counted<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, one, many) = self;
        write!(formatter, "{count} {}", if *count == N::from(1) { one } else { many })
    }
}

pub(crate) fn ids<R>(tokens: &[(i64, R)], most: usize) -> Vec<i64> {
    tokens.iter().take(most).map(|(id, _)| *id).collect()
}

/// The traces of those tokens that are named, as a field of the log; nothing if they have none.
pub(crate) fn traceparents_of<R>(
    tokens: &[(i64, R)],
    traces: &[(i64, Traceparent)],
) -> Option<DebugValue<Vec<Traceparent>>> {
    let named = ids(tokens, NAMED);
    let found = named.iter().filter_map(|id| {
        let trace = traces.iter().find(|(traced, _)| traced == id);
        trace.map(|(_, traceparent)| *traceparent)
    });
    some_traceparents(found.collect())
}

/// Traces as a field of the log; nothing if there are none.
pub(crate) fn some_traceparents(
    traceparents: Vec<Traceparent>,
) -> Option<DebugValue<Vec<Traceparent>>> {
    (!traceparents.is_empty()).then(|| tracing::field::debug(traceparents))
}

/// At most `most` tokens, each with its reason, and how many others there are.
pub(crate) fn listed<R: Display>(tokens: &[(i64, R)], most: usize) -> String {
    let mut list: Vec<_> =
        tokens.iter().take(most).map(|(id, reason)| format!("token {id}: {reason}")).collect();
    if let others @ 1.. = tokens.len().saturating_sub(most) {
        list.push(format!("and {}", Counted(others as u64, "other", "others")));
    }
    list.join("; ")
}

pub(crate) fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// Shown in the largest unit in which it is whole: `270s`, `1500ms`, `24h`, `30d`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HumanDuration(pub Duration);

impl Display for HumanDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis();
        // A day is 24h, as where it is a limit.
        for (unit, least, name) in [
            (86_400_000, 2, "d"),
            (3_600_000, 1, "h"),
            (60_000, 1, "m"),
            (1_000, 1, "s"),
            (1, 1, "ms"),
        ] {
            if milliseconds.is_multiple_of(unit) && milliseconds / unit >= least {
                return write!(formatter, "{}{name}", milliseconds / unit);
            }
        }
        formatter.write_str("0")
    }
}
