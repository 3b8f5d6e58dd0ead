//! The sentences of `mailroom status`, which pages of operators have, too.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::log::display::HumanDuration;
use crate::outcome::SenderState;

/// Until when tokens stay deferred.
pub(in crate::commands) const DEFERRED: &str =
    "until their subject is eligible or they can be signed";

/// What is used of the month's budget, and when it is over.
pub(in crate::commands) fn budget(status: &Value) -> Option<String> {
    let budget = status["budget"].as_object()?;
    let [allowed, used, left] =
        ["allowed", "used", "left"].map(|member| budget[member].as_i64().unwrap_or_default());
    let ends_at = budget["ends_at"].as_str().unwrap_or_default();
    let lasts = budget["lasts_until"].as_str().map(|until| {
        if left == 0 {
            "; mails wait until then".to_owned()
        } else {
            format!("; as mails go now, it is used up at {until}")
        }
    });
    let lasts = lasts.unwrap_or_default();
    Some(format!("{used} of {allowed} used this month, {left} left until {ends_at}{lasts}"))
}

/// In which format links are signed.
pub(in crate::commands) fn formats(status: &Value) -> String {
    let default = status["installation"]["token_format"].as_str().unwrap_or_default();
    let list = status["collectors"]["list"].as_array().map(Vec::as_slice).unwrap_or_default();
    let alive = list.iter().filter(|collector| collector["is_alive"] == true);
    let others: BTreeSet<_> = alive
        .filter_map(|collector| collector["token_format"].as_str())
        .filter(|format| *format != default)
        .collect();
    if others.is_empty() {
        return format!("{default}, unless a collector is told another one");
    }
    let others: Vec<_> = others.into_iter().collect();
    format!("{default}, but collectors that were told so sign {}", others.join(" and "))
}

/// Which installation this is.
pub(in crate::commands) fn named(status: &Value) -> String {
    status["installation"]["name"].as_str().map_or_else(
        || {
            "none, so that collectors would also send from a copy; `mailroom migrate bind --name` \
             gives one"
                .to_owned()
        },
        |name| format!("{name}, which collectors have to name by MAILROOM_INSTALLATION"),
    )
}

/// Which server has answered, as it calls itself.
pub(in crate::commands) fn server(status: &Value) -> String {
    let server = &status["server"];
    let database = server["database"].as_str().unwrap_or_default();
    match (server["address"].as_str(), server["port"].as_i64()) {
        (Some(address), Some(port)) if address.contains(':') => {
            format!("database {database} at [{address}]:{port}")
        }
        (Some(address), Some(port)) => format!("database {database} at {address}:{port}"),
        _ => format!("database {database}, reached by a Unix socket"),
    }
}

/// Why the tokens of an action are not signed, which has one reason, and what helps.
pub(in crate::commands) fn unsignable(alike: &Value) -> String {
    let action = alike["action"].as_str().unwrap_or_default();
    let tokens = alike["tokens"].as_i64().unwrap_or_default();
    let (waiting, are) = match tokens {
        1 => ("1 token waits".to_owned(), "it is"),
        _ => (format!("{tokens} tokens wait"), "they are"),
    };
    let reason = if alike["reason"] == "binding" {
        &format!("{are} for one browser, and every collector signs v1, which binds no links")
    } else {
        "every collector signs v1, which has only activate and recover"
    };
    format!(
        "{action}: {waiting}, because {reason}; set MAILROOM_TOKEN_FORMAT=v2 once the verifiers \
         accept it"
    )
}

/// What a collector does, or that it is missed.
pub(in crate::commands) fn described(collector: &Value) -> String {
    let text = |member: &str| collector[member].as_str().unwrap_or_default();
    let lasted = |member: &str| age(collector[member].as_i64().unwrap_or_default());
    let name = text("name");
    if collector["is_alive"] == false {
        return format!(
            "{name} has given no sign of life for {} and did not end in order",
            lasted("seen_ms")
        );
    }
    let since = format!("since {} for {}", text("since"), lasted("state_ms"));
    let state = match text("state") {
        "ready" => "the sender works".to_owned(),
        "resting" => format!("rests {since}, because nothing is due"),
        "new" => "the sender has had nothing to answer yet".to_owned(),
        "unanswered" => format!("the sender has not answered {since}"),
        state if SenderState::UNAVAILABLE.contains(&state) => {
            let trial = if state == "half_open" { ", and is being tried again" } else { "" };
            format!("the sender has been unavailable {since}{trial}: {}", text("reason"))
        }
        _ => "writes to standard output".to_owned(),
    };
    format!("{name}: {state}")
}

/// Rounded down to whole days, hours, minutes or seconds, whichever there are at least two of.
pub(in crate::commands) fn age(milliseconds: i64) -> HumanDuration {
    let milliseconds = milliseconds.unsigned_abs();
    let fits = |unit: &u64| milliseconds >= 2 * unit;
    let unit = [86_400_000, 3_600_000, 60_000, 1_000].into_iter().find(fits).unwrap_or(1);
    HumanDuration(Duration::from_millis(milliseconds / unit * unit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::server;

    #[test]
    fn a_server_is_where_it_says_that_it_is() {
        for (address, port, said) in [
            (json!("10.0.0.5"), json!(5432), "database shop at 10.0.0.5:5432"),
            (json!("fd00::5"), json!(5433), "database shop at [fd00::5]:5433"),
            (json!(null), json!(null), "database shop, reached by a Unix socket"),
        ] {
            let server_is = json!({"database": "shop", "address": address, "port": port});
            assert_eq!(server(&json!({"server": server_is})), said);
        }
    }
}
