//! How long processes have used a processor, which other work on the machine hardly changes.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::param::clock_ticks_per_second;

/// The time of a process, of those that it has started, and of those of them that have ended:
/// all of a server or a collector.
pub(super) fn used_by(process: u32) -> Result<Duration> {
    // Not `?`: a child may end between being listed and being read, and then its parent has its
    // time.
    let children = descendants(process).into_iter().filter_map(|child| times(child).ok());
    let ended = times(process)?;
    let ticks = ended.own + ended.of_ended + children.map(|child| child.own).sum::<u64>();
    Ok(Duration::from_millis(ticks * 1_000 / clock_ticks_per_second()))
}

struct Times {
    own: u64,
    of_ended: u64,
}

fn times(process: u32) -> Result<Times> {
    parse(&fs::read_to_string(format!("/proc/{process}/stat"))?)
}

/// Fields 14 to 17 of `proc_pid_stat(5)`.
fn parse(text: &str) -> Result<Times> {
    // Behind the name, which may have blanks.
    let (_, fields) = text.rsplit_once(')').context("the process has a name")?;
    let fields: Vec<u64> =
        fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    let &[user, system, user_of_ended, system_of_ended] = &fields[..] else {
        anyhow::bail!("a process has four times");
    };
    Ok(Times { own: user + system, of_ended: user_of_ended + system_of_ended })
}

/// Its children; those of a server and of a collector have none themselves that matter.
fn descendants(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_a_name_with_blanks_and_brackets() {
        let times =
            parse("7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 120 30 4 2 20 0 1 0 5 0 0").unwrap();
        assert_eq!((times.own, times.of_ended), (150, 6));
    }

    #[test]
    fn this_process_has_used_some() {
        assert!(used_by(std::process::id()).is_ok());
        assert!(used_by(u32::MAX).is_err());
    }
}
