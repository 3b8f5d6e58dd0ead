//! Processes that are stopped: a signal is on its way for a while, and a machine that is busy lets
//! a server answer meanwhile.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::collector::wait_until;

/// Waits until all threads of a process are stopped, and of those of its group if it leads one.
pub fn wait_until_stopped(process: u32) -> Result<()> {
    wait_until(|| stands_still(process).unwrap_or(false))
        .with_context(|| format!("process {process} goes on after SIGSTOP"))
}

fn stands_still(leader: u32) -> Option<bool> {
    let leader = leader.to_string();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        // One that ends meanwhile makes no difference.
        let Some(stat) = fs::read_to_string(entry.path().join("stat")).ok() else { continue };
        let is_leader = entry.file_name().to_str() == Some(leader.as_str());
        if (is_leader || group(&stat) == Some(&leader)) && !threads_stand_still(&entry.path()) {
            return Some(false);
        }
    }
    Some(true)
}

fn threads_stand_still(process: &Path) -> bool {
    let Ok(threads) = fs::read_dir(process.join("task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // What has ended stands still, too.
        after_name(&stat).is_none_or(|mut fields| matches!(fields.next(), Some("T" | "Z" | "X")))
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
    use super::*;

    #[test]
    fn a_group_is_read_behind_any_name() {
        assert_eq!(group("12 (a) b (c) S 1 77 12 0"), Some("77"));
        assert_eq!(group("12"), None);
    }
}
