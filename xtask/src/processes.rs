//! What a process has started, for somebody who has to find out what it waits for.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::process::{Command, Stdio};

/// The most of a command line that is shown, in characters.
const WIDTH: usize = 160;

/// A process: its number, its state (proc(5)), its command line, and its threads' names.
///
/// The command line of a PostgreSQL backend says what it does and whether it waits; a thread of a
/// test has the test's name, as far as 15 characters go.
pub(crate) struct Found {
    process: u32,
    state: String,
    words: String,
    threads: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.process, self.state, self.words)?;
        if self.threads.len() > 1 {
            write!(formatter, "\n        threads: {}", self.threads.join(", "))?;
        }
        Ok(())
    }
}

/// This process, all that descend from it, and the PostgreSQL servers that these have started,
/// which descend from nobody. Empty where there is no `/proc`.
pub(crate) fn below(root: u32) -> Vec<Found> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut servers = Vec::new();
    for process in numbers_in("/proc") {
        if let Some((_, parent)) = state_and_parent(process) {
            children.entry(parent).or_default().push(process);
        }
        let words = command_line(process);
        if words.contains("postgres -D ") {
            servers.push((process, words));
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(process) = next.pop() {
        next.extend(children.remove(&process).unwrap_or_default());
        // The folder of a server's data has the number of the process that wanted it.
        let folder = format!("/mailroom-{process}-");
        let (own, others) = servers.into_iter().partition(|(_, words)| words.contains(&folder));
        servers = others;
        let own: Vec<(u32, String)> = own;
        next.extend(own.into_iter().map(|(server, _)| server));
        let Some((state, _)) = state_and_parent(process) else { continue };
        let words = command_line(process).chars().take(WIDTH).collect();
        found.push(Found { process, state, words, threads: threads(process) });
    }
    found
}

/// Ends them at once, but for PostgreSQL servers and the shell that owns one: that ends the server
/// and removes its data when the process that wanted it has ended.
pub(crate) fn kill(processes: &[Found]) {
    let of_server = |words: &str| words.contains("/supervisor.sh ") || words.contains("postgres");
    let numbers = processes.iter().filter(|found| !of_server(&found.words));
    let numbers = numbers.map(|found| found.process.to_string());
    // Some may have ended meanwhile.
    Command::new("kill").arg("-KILL").args(numbers).stderr(Stdio::null()).status().ok();
}

fn numbers_in(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn command_line(process: u32) -> String {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned()
}

fn threads(process: u32) -> Vec<String> {
    let folder = format!("/proc/{process}/task");
    let name = |thread| fs::read_to_string(format!("{folder}/{thread}/comm")).ok();
    let names = numbers_in(&folder).into_iter().filter_map(name);
    names.map(|name| name.trim_end().to_owned()).collect()
}

fn state_and_parent(process: u32) -> Option<(String, u32)> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold blanks and parentheses of its own.
    let (_, rest) = status.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
