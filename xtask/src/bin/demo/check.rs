//! Two verifiers that share no code.

use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use mailroom_tests::program;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::line::Item;

/// What the two said of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdicts {
    pub(crate) mailroom: bool,
    pub(crate) node: bool,
}

pub(crate) struct Checker {
    key: String,
    /// Kept because dropping it ends the process.
    _node: Child,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Checker {
    pub(crate) fn start(key: &str) -> Result<Self> {
        let mut command = Command::new("node");
        command.args(["--input-type=module", "--eval", include_str!("verify.mjs")]);
        command.env("MAILROOM_SECRET_KEY", key).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for the demonstration, which still has questions.
        let node = command.process_group(0).kill_on_drop(true).spawn();
        let mut node = node.context("cannot run node: install Node.js 20 or later")?;
        let questions = node.stdin.take().expect("the input is piped");
        let answers = BufReader::new(node.stdout.take().expect("the output is piped")).lines();
        Ok(Self { key: key.to_owned(), _node: node, questions, answers })
    }

    /// Asks both, and returns the token's secret in hexadecimal as Node read it.
    pub(crate) async fn check(&mut self, item: &Item) -> Result<(Verdicts, String)> {
        let mailroom = self.ask_mailroom(item).await?;
        let (node, secret) = self.ask_node(item).await?;
        Ok((Verdicts { mailroom, node }, secret))
    }

    async fn ask_mailroom(&self, item: &Item) -> Result<bool> {
        let mut command = program::mailroom()?;
        command.args(["verify", "--action", item.action.word()]);
        if item.action == crate::line::Action::Recover {
            command.args(["--code", &item.code]);
        }
        command.arg("-").env("MAILROOM_SECRET_KEY", &self.key);
        let mut command = Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn().context("cannot run mailroom")?;
        let mut input = child.stdin.take().expect("the input is piped");
        input.write_all(item.token.as_bytes()).await.context("`mailroom verify` does not read the token")?;
        drop(input);
        let output = child.wait_with_output().await?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => bail!("`mailroom verify`: {}", String::from_utf8_lossy(&output.stderr).trim()),
        }
    }

    async fn ask_node(&mut self, item: &Item) -> Result<(bool, String)> {
        let question = format!("{},{},{}\n", item.action.word(), item.token, item.code);
        self.questions.write_all(question.as_bytes()).await.context("node has ended")?;
        let answer = self.answers.next_line().await?.context("node has ended")?;
        let (verdict, secret) = answer.split_once(' ').context("node answers with two words")?;
        ensure!(["valid", "invalid"].contains(&verdict), "node answers `{answer}`");
        Ok((verdict == "valid", secret.to_owned()))
    }
}
