//! `mailroom status --all`: what several databases say, whose collectors `mailroom@.service` runs.
//!
//! Each is looked at by a process of its own with the settings of its own file, as its collector
//! runs: what one of them does or says does not touch the others.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs, io};

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::{CommandError, Outcome, print, print_coloured};
use super::nagios;
use crate::colour::{ERROR, OK, WARNING};
use crate::commands::level::Level;
use crate::config::environment_file::assignments;

/// The file of settings in the folder of each database.
const SETTINGS: &str = "collector.env";

/// How many are looked at at once.
const AT_ONCE: usize = 8;

/// How long one of them may take: a database that is away is given up before.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was found of one of them.
struct Answer {
    level: Level,
    /// What its `mailroom status` printed, or why it cannot look.
    text: String,
}

/// How the answers are shown.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    Text,
    Json,
    Nagios,
}

impl Shown {
    pub(super) fn of(json: bool, nagios: bool) -> Self {
        match (json, nagios) {
            (true, _) => Self::Json,
            (_, true) => Self::Nagios,
            _ => Self::Text,
        }
    }
}

pub(super) async fn run(folder: &Path, shown: Shown) -> Outcome {
    let answers = ask_all(settings(folder)?).await?;
    let worst = worst(answers.values().map(|answer| answer.level));
    match shown {
        Shown::Text => print_coloured(text(&answers))?,
        Shown::Json => print(json(&answers))?,
        Shown::Nagios => {
            let lines =
                answers.iter().map(|(name, Answer { level, text })| (&**name, *level, &**text));
            print(nagios::of_several(worst, lines))?
        }
    };
    Ok(worst.into())
}

/// What is critical is said also where another one cannot be looked at.
fn worst(levels: impl Iterator<Item = Level>) -> Level {
    let rank = |level: &Level| (*level == Level::Critical, *level);
    levels.max_by_key(rank).unwrap_or_default()
}

/// The file of settings of each database, by the name of its folder.
fn settings(folder: &Path) -> Result<Vec<(String, PathBuf)>, CommandError> {
    let unreadable = || format!("the folder {} cannot be read", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(CommandError::because(unreadable()))? {
        let entry = entry.map_err(CommandError::because(unreadable()))?;
        let file = entry.path().join(SETTINGS);
        // One that may not be read is there, and is said to be unknown.
        let is_missing = |error: &io::Error| {
            [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind())
        };
        if !fs::metadata(&file).is_err_and(|error| is_missing(&error)) {
            found.push((entry.file_name().to_string_lossy().into_owned(), file));
        }
    }
    if found.is_empty() {
        let pattern = folder.join("NAME").join(SETTINGS);
        let fault = format!("there is no file {}, one for each database", pattern.display());
        return Err(CommandError::Failure(fault));
    }
    Ok(found)
}

async fn ask_all(
    settings: Vec<(String, PathBuf)>,
) -> Result<BTreeMap<String, Answer>, CommandError> {
    let mut settings = settings.into_iter();
    let mut running = JoinSet::new();
    let mut answers = BTreeMap::new();
    loop {
        for (name, file) in settings.by_ref().take(AT_ONCE - running.len()) {
            running.spawn(async move { (name, ask(&file).await) });
        }
        match running.join_next().await {
            None => return Ok(answers),
            Some(asked) => answers.extend([asked.map_err(CommandError::because("a look ends"))?]),
        }
    }
}

/// Calls this program again, as a process with those settings and with none of this one's.
async fn ask(file: &Path) -> Answer {
    let settings = match fs::read_to_string(file) {
        Ok(text) => assignments(&text),
        Err(error) => {
            return unknown(format!("{} cannot be read: {error}", file.display()));
        }
    };
    let Ok(program) = env::current_exe() else {
        return unknown("the program does not find itself".to_owned());
    };
    let mut command = Command::new(program);
    command.arg("status").args(arguments_of_each(env::args_os().skip(2)));
    for (name, _) in env::vars_os().filter(|(name, _)| is_setting(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.envs(settings).stdin(Stdio::null()).kill_on_drop(true);
    match timeout(PATIENCE, command.output()).await {
        Err(_) => unknown(format!("it does not answer within {PATIENCE:?}")),
        Ok(Err(error)) => unknown(format!("the program cannot be started: {error}")),
        Ok(Ok(output)) => {
            let level = Level::of_exit_status(output.status.code());
            let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
            Answer { level, text: String::from_utf8_lossy(&said).trim_end().to_owned() }
        }
    }
}

fn unknown(reason: String) -> Answer {
    Answer { level: Level::Unknown, text: reason }
}

/// Whether a variable is a setting of Mailroom or of a connection to PostgreSQL.
fn is_setting(name: &str) -> bool {
    name.starts_with("MAILROOM_") || name.starts_with("PG")
}

/// The arguments of this command without `--all`, which clap has accepted already.
fn arguments_of_each(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let is_all = |argument: &OsString| argument.to_string_lossy().starts_with("--all");
    let mut kept = Vec::new();
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        if !is_all(&argument) {
            kept.push(argument);
        } else if argument == "--all" {
            arguments.next_if(|next| !next.to_string_lossy().starts_with('-'));
        }
    }
    kept
}

fn text(answers: &BTreeMap<String, Answer>) -> String {
    let paragraph = |(name, answer): (&String, &Answer)| {
        let colour = match answer.level {
            Level::Ok => OK,
            Level::Warning => WARNING,
            Level::Critical | Level::Unknown => ERROR,
        };
        let lines = answer.text.lines().map(|line| format!("\n  {line}"));
        format!("{colour}{name}: {}{colour:#}", nagios::state(answer.level))
            + &lines.collect::<String>()
    };
    answers.iter().map(paragraph).collect::<Vec<_>>().join("\n\n")
}

/// An object with a member for each: what it would have printed alone, or an `error`.
fn json(answers: &BTreeMap<String, Answer>) -> Value {
    let member = |(name, answer): (&String, &Answer)| {
        let said = serde_json::from_str(&answer.text);
        let said = said.unwrap_or_else(|_| json!({ "error": answer.text }));
        (name.clone(), said)
    };
    Value::Object(answers.iter().map(member).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_called_with_the_same_arguments_but_the_folder() {
        for (given, expected) in [
            ("--all", ""),
            ("--all /etc/x", ""),
            ("--all=/etc/x --json", "--json"),
            ("--max-dead 3 --all --nagios", "--max-dead 3 --nagios"),
            ("--nagios --all /etc/x --schema letters", "--nagios --schema letters"),
        ] {
            let kept = arguments_of_each(given.split_whitespace().map(OsString::from));
            let expected: Vec<_> = expected.split_whitespace().map(OsString::from).collect();
            assert_eq!(kept, expected, "{given}");
        }
    }
}
