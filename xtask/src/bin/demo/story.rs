//! What the demonstration prints.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::check::Verdicts;
use crate::line::Item;

/// Tells events as they happen, coloured on a terminal. An error means that nobody listens any more.
pub(crate) struct Story {
    colours: bool,
    lines: usize,
}

/// What the end of the story counts.
pub(crate) struct Numbers {
    pub(crate) accounts: usize,
    pub(crate) recoveries: usize,
    pub(crate) made: usize,
    pub(crate) came_out: usize,
    pub(crate) mailroom: usize,
    pub(crate) node: usize,
    pub(crate) slowest: Duration,
}

impl Story {
    pub(crate) fn new() -> Self {
        Self { colours: io::stdout().is_terminal(), lines: 0 }
    }

    /// A remark beside the events.
    pub(crate) fn note(&self, text: &str) -> Result<()> {
        say(&self.dim(text))
    }

    /// Something that people did, which changed the database.
    pub(crate) fn happened(&self, text: &str) -> Result<()> {
        say(&format!("  {}  {text}", self.colour("36", "in ")))
    }

    /// A line that came out of the collector. The first is shown as it is.
    pub(crate) fn line(&mut self, line: &str, tokens: usize) -> Result<()> {
        self.lines += 1;
        let (out, number) = (self.colour("33", "out"), self.lines);
        let plural = if tokens == 1 { "token" } else { "tokens" };
        say(&format!("  {out}  line {number}: {tokens} {plural} in {} bytes", line.len()))?;
        if number == 1 {
            say(line)?;
            self.note(
                "       The line above is what a program that sends mail reads: five fields for each token.",
            )?;
            self.note("       From here on each token has a row: action, login, token (shortened), code,")?;
            self.note("       and what two verifiers say of it that share no code.")?;
        }
        Ok(())
    }

    /// One token of a line, and what the verifiers said.
    pub(crate) fn token(&self, item: &Item, verdicts: Verdicts) -> Result<()> {
        let Item { action, login, token, code, .. } = item;
        let (action, token) = (action.word(), shortened(token));
        say(&format!("       {action:8}  {login:18}  {token}  {code}  {}", self.verdicts(verdicts)))
    }

    /// What the collector logged.
    pub(crate) fn log(&self, text: &str) -> Result<()> {
        self.note(&format!("  log  {text}"))
    }

    /// Something that should not have happened.
    pub(crate) fn fault(&self, text: &str) -> Result<()> {
        say(&format!("  {}  {text}", self.colour("31", "!!!")))
    }

    /// What has happened, in numbers.
    pub(crate) fn summary(&self, numbers: &Numbers) -> Result<()> {
        let Numbers { accounts, recoveries, made, came_out, mailroom, node, slowest } = numbers;
        let (lines, slowest) = (self.lines, slowest.as_secs_f64());
        say("")?;
        say(&format!(
            "{accounts} accounts registered, {recoveries} recoveries asked for: the database made {made} tokens"
        ))?;
        say(&format!(
            "{came_out} tokens came out in {lines} lines, the slowest {slowest:.1} s after it was asked for"
        ))?;
        say(&format!("valid: {mailroom} by mailroom verify, {node} by node:crypto"))
    }

    /// What the verifiers said of a link that was changed.
    pub(crate) fn forged(&self, verdicts: Verdicts) -> Result<()> {
        say(&format!("one character of a link changed: {}", self.verdicts(verdicts)))
    }

    /// The last line.
    pub(crate) fn end(&self, faults: usize) -> Result<()> {
        say(&match faults {
            0 => {
                self.colour("32", "Every token that the database made came out once and was verified twice.")
            }
            1 => self.colour("31", "One fault, marked with !!! above."),
            _ => self.colour("31", &format!("{faults} faults, marked with !!! above.")),
        })
    }

    fn verdicts(&self, verdicts: Verdicts) -> String {
        let [mailroom, node] = [verdicts.mailroom, verdicts.node]
            .map(|valid| if valid { self.colour("32", "valid") } else { self.colour("31", "not valid") });
        format!("mailroom verify: {mailroom}  node:crypto: {node}")
    }

    fn dim(&self, text: &str) -> String {
        self.colour("2", text)
    }

    fn colour(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn say(text: &str) -> Result<()> {
    writeln!(io::stdout(), "{text}").context("nobody reads what the demonstration prints")
}

/// The two ends of a token.
fn shortened(token: &str) -> String {
    match (token.get(..8), token.len().checked_sub(8).and_then(|start| token.get(start..))) {
        (Some(start), Some(end)) if token.len() > 20 => format!("{start}…{end}"),
        _ => token.to_owned(),
    }
}
