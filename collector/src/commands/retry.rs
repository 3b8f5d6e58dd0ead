//! `mailroom retry`: puts dead tokens back into the queue.

use std::collections::BTreeSet;
use std::io::{self, Write as _};

use clap::Args;
use tokio_postgres::types::Type;

use super::operator::{Error, connect};
use crate::counted::Counted;

const RETRY: &str = "SELECT * FROM mailroom_retry($1)";

/// Arguments of `mailroom retry`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Ids of dead tokens
    #[arg(
        value_name = "ID",
        value_parser = token_id,
        allow_negative_numbers = true,
        required_unless_present = "all_dead"
    )]
    ids: Vec<i64>,

    /// All dead tokens
    #[arg(long)]
    all_dead: bool,
}

/// Runs the command; answers whether all tokens that were named are back.
pub async fn run(arguments: &Arguments) -> Result<bool, Error> {
    if arguments.all_dead && !arguments.ids.is_empty() {
        return Err(Error::Named);
    }
    let client = connect("mailroom retry", &["mailroom_retry"]).await?.client;
    let ids = (!arguments.all_dead).then_some(&arguments.ids);
    let rows = client.query_typed(RETRY, &[(&ids, Type::INT8_ARRAY)]).await?;
    let back: BTreeSet<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let count = i64::try_from(back.len()).unwrap_or(i64::MAX);
    writeln!(io::stdout(), "{} again", Counted(count, "token waits", "tokens wait"))?;
    let named: BTreeSet<i64> = arguments.ids.iter().copied().collect();
    for id in named.difference(&back) {
        // Said beside the outcome; a closed standard error does not undo it.
        writeln!(io::stderr(), "mailroom: token {id} is not dead").ok();
    }
    Ok(named.is_subset(&back))
}

fn token_id(text: &str) -> Result<i64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = is_number.then(|| text.parse().ok()).flatten().filter(|id| *id > 0);
    id.ok_or_else(|| "an id is a whole number from 1 to 9223372036854775807".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_positive_whole_numbers() {
        assert_eq!(token_id("1"), Ok(1));
        assert_eq!(token_id("9223372036854775807"), Ok(i64::MAX));
        for text in ["", "0", "-1", "+1", " 1", "1.0", "1e3", "one", "9223372036854775808", "１"] {
            assert!(token_id(text).is_err(), "{text:?}");
        }
    }
}
