//! How long processes have used a processor, which other work on the machine hardly changes.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::param::clock_ticks_per_second;

/// The time of a process, of those that it has started, and of those of them that have ended:
/// all of a server or a collector.
pub(super) fn used_by(process: u32) -> Result<Duration> {
    // A child may end between being listed and being read, and then its parent has its time.
    let children = children(process).into_iter().filter_map(|child| running(child).ok());
    Ok(running(process)? + children.sum::<Duration>() + of_ended_children(process)?)
}

/// By its threads, to the nanosecond.
pub(super) fn running(process: u32) -> Result<Duration> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"));
        let text = text.context("the kernel does not count nanoseconds (CONFIG_SCHED_INFO)")?;
        let first = text.split_whitespace().next().context("a thread has a time")?;
        nanoseconds += first.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

fn of_ended_children(process: u32) -> Result<Duration> {
    let ticks = parse(&fs::read_to_string(format!("/proc/{process}/stat"))?)?;
    Ok(Duration::from_millis(ticks * 1_000 / clock_ticks_per_second()))
}

/// Fields 16 and 17 of `proc_pid_stat(5)`.
fn parse(text: &str) -> Result<u64> {
    // Behind the name, which may have blanks.
    let (_, fields) = text.rsplit_once(')').context("the process has a name")?;
    let fields: Vec<u64> =
        fields.split_whitespace().skip(13).take(2).filter_map(|field| field.parse().ok()).collect();
    let &[user, system] = &fields[..] else { bail!("its ended children have two times") };
    Ok(user + system)
}

/// Those of a server and of a collector have none themselves that matter.
fn children(process: u32) -> Vec<u32> {
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
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 120 30 4 2 20 0 1 0 5 0 0";
        assert_eq!(parse(text).unwrap(), 6);
    }

    #[test]
    fn this_process_has_used_some() {
        assert!(used_by(std::process::id()).unwrap() > Duration::ZERO);
        assert!(used_by(u32::MAX).is_err());
    }
}
