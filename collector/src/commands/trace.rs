//! `mailroom trace`: the story of a mail, or of all mails for an address.

use std::process::ExitCode;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{CommandError, Outcome, connect_to_queue, print, report};
use crate::config::{SchemaSetting, digits, heading};

#[derive(clap::Args)]
pub(crate) struct TraceArguments {
    /// Id of a token, which log lines name, or an address
    #[arg(value_name = "TOKEN|ADDRESS")]
    about: String,

    /// Print a line of JSON for each event
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,

    #[command(flatten)]
    schema: SchemaSetting,
}

/// Ends with 0 if anything is known.
pub(crate) async fn run(TraceArguments { about, json, schema }: TraceArguments) -> Outcome {
    let tokens: Option<Vec<i64>> = digits(&about).filter(|id| *id > 0).map(|id| vec![id]);
    if tokens.is_none() && !about.contains('@') {
        return Err(CommandError::Usage(
            "give the id of a token, which is a whole number, or an address".to_owned(),
        ));
    }
    let address = tokens.is_none().then_some(&about);
    let (client, _) = connect_to_queue(schema, "mailroom trace", &["mailroom.trace"]).await?;
    let parameters = [(&tokens as _, Type::INT8_ARRAY), (&address as _, Type::TEXT)];
    let rows = client.query_typed(include_str!("trace.sql"), &parameters).await?;
    if rows.is_empty() {
        report(
            "mailroom: nothing is known of it in this database: no such token was made, or it and \
             what was logged of it were pruned",
        );
        return Ok(ExitCode::FAILURE);
    }
    let lines = if json {
        rows.iter().map(|row| row.try_get(1)).collect::<Result<Vec<String>, _>>()?
    } else {
        folded(&rows.iter().map(Told::of).collect::<Result<Vec<_>, _>>()?)
    };
    for line in lines {
        print(line)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An event.
struct Told {
    line: String,
    happened: String,
    /// The same for events that differ in their time, attempt and collector alone.
    kind: String,
}

impl Told {
    /// A row of `trace.sql`, as text.
    fn of(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self { line: row.try_get(0)?, happened: row.try_get(2)?, kind: row.try_get(3)? })
    }
}

/// A run of attempts that ended alike, as in an outage, as its first line and how often the same
/// came after it, and until when.
fn folded(told: &[Told]) -> Vec<String> {
    let mut lines = Vec::new();
    for run in told.chunk_by(|one, next| one.kind == next.kind) {
        match run {
            [first, between @ .., last] if !between.is_empty() => {
                lines.push(first.line.clone());
                let count = between.len() + 1;
                lines.push(format!("… the same {count} more times until {}", last.happened));
            }
            run => lines.extend(run.iter().map(|told| told.line.clone())),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_two_attempts_that_end_alike_are_two_lines() {
        let told = |kinds: &str| {
            let told = kinds.chars().enumerate().map(|(at, kind)| Told {
                line: format!("{at}{kind}"),
                happened: at.to_string(),
                kind: kind.to_string(),
            });
            folded(&told.collect::<Vec<_>>()).join("|")
        };
        for (kinds, expected) in [
            ("", ""),
            ("a", "0a"),
            ("aab", "0a|1a|2b"),
            ("eaaab", "0e|1a|… the same 2 more times until 3|4b"),
            ("aaaba", "0a|… the same 2 more times until 2|3b|4a"),
        ] {
            assert_eq!(told(kinds), expected, "{kinds}");
        }
    }
}
