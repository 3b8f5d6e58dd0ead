//! Processes that are stopped or killed: a signal is on its way for a while, and a machine that is
//! busy lets a server answer meanwhile.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::collector::wait_until;

/// Waits until all threads of a process are stopped, and of those of its group if it leads one.
pub fn wait_until_stopped(process: u32) -> Result<()> {
    wait_until(|| all_are(process, &["T", "Z", "X"]).unwrap_or(false))
        .with_context(|| format!("process {process} goes on after SIGSTOP"))
}

/// Waits until all threads of a group have ended, also those of its leader's children: until then
/// their ports are open, and a server that is started anew finds them taken.
pub fn wait_until_ended(leader: u32) -> Result<()> {
    wait_until(|| all_are(leader, &["Z", "X"]).unwrap_or(false))
        .with_context(|| format!("processes of group {leader} go on after SIGKILL"))
}

/// Whether all threads of a process, and of its group, are in one of these states.
fn all_are(leader: u32, states: &[&str]) -> Option<bool> {
    let leader = leader.to_string();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        // One that ends meanwhile makes no difference.
        let Some(stat) = fs::read_to_string(entry.path().join("stat")).ok() else { continue };
        let is_leader = entry.file_name().to_str() == Some(leader.as_str());
        if (is_leader || group(&stat) == Some(&leader)) && !threads_are(&entry.path(), states) {
            return Some(false);
        }
    }
    Some(true)
}

fn threads_are(process: &Path, states: &[&str]) -> bool {
    let Ok(threads) = fs::read_dir(process.join("task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        after_name(&stat).and_then(|mut fields| fields.next()).is_none_or(|is| states.contains(&is))
    })
}

/// `PID (NAME) STATE PARENT GROUP …`, in which a name may have spaces.
fn after_name(stat: &str) -> Option<std::str::SplitWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

fn group(stat: &str) -> Option<&str> {
    after_name(stat)?.nth(2)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    #[test]
    fn a_child_of_a_killed_leader_is_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(Stdio::piped()).process_group(0);
        let mut leader = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(leader.stdout.take().unwrap()).read_line(&mut line).unwrap();
        leader.kill().unwrap();
        leader.wait().unwrap();
        assert_eq!(all_are(leader.id(), &["Z", "X"]), Some(false));
        kill_process_group(Pid::from_child(&leader), Signal::KILL).unwrap();
        wait_until_ended(leader.id()).unwrap();
        let child = Path::new("/proc").join(line.trim());
        assert!(threads_are(&child, &["Z", "X"]));
    }

    #[test]
    fn a_group_is_read_behind_any_name() {
        assert_eq!(group("12 (a) b (c) S 1 77 12 0"), Some("77"));
        assert_eq!(group("12"), None);
    }
}
