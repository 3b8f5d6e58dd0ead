//! What a process has started, for somebody who has to find out what it waits for.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::process::{Command, Stdio};

/// The most of a command line that is shown, in characters.
const WIDTH: usize = 160;

/// A process: its number, its state (proc(5)) and its command line.
pub(crate) struct Found {
    process: u32,
    state: String,
    words: String,
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.process, self.state, self.words)
    }
}

/// This process and all that descend from it. Empty where there is no `/proc`.
pub(crate) fn below(root: u32) -> Vec<Found> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some((_, parent)) = state_and_parent(process) {
            children.entry(parent).or_default().push(process);
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(process) = next.pop() {
        next.extend(children.remove(&process).unwrap_or_default());
        let Some((state, _)) = state_and_parent(process) else { continue };
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        found.push(Found { process, state, words: line.trim_end().chars().take(WIDTH).collect() });
    }
    found
}

/// Ends them at once.
pub(crate) fn kill(processes: &[Found]) {
    let numbers = processes.iter().map(|found| found.process.to_string());
    // Some may have ended meanwhile.
    Command::new("kill").arg("-KILL").args(numbers).stderr(Stdio::null()).status().ok();
}

fn state_and_parent(process: u32) -> Option<(String, u32)> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold blanks and parentheses of its own.
    let (_, rest) = status.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
