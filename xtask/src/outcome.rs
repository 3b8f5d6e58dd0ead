//! What the output of a step tells: how many tests passed, and what is worth showing.

use std::fmt;

/// How many tests passed, failed and were skipped. A step without tests counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(formatter, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// Adds up the result lines of Rust's test harness.
pub(crate) fn count(output: &str, succeeded: bool) -> Counts {
    let results: Vec<&str> =
        output.lines().filter_map(|line| line.strip_prefix("test result: ")).collect();
    let words: Vec<&str> = results.iter().flat_map(|result| result.split([' ', ';'])).collect();
    let sum = |kind: &str| -> usize {
        words
            .windows(2)
            .filter(|pair| pair[1] == kind)
            .filter_map(|pair| pair[0].parse::<usize>().ok())
            .sum()
    };
    let skipped = sum("ignored") + skipped(output).count();
    let mut counts = Counts { passed: sum("passed"), failed: sum("failed"), skipped };
    // A compiler that complains and a test that crashes print no result line.
    if succeeded && results.is_empty() {
        counts.passed = 1;
    }
    // A selection that matches no test has tested nothing, however well that went.
    let tested_nothing = !results.is_empty() && counts.passed + counts.skipped == 0;
    if (!succeeded || tested_nothing) && counts.failed == 0 {
        counts.failed = 1;
    }
    counts
}

/// The lines that name what this machine cannot run.
pub(crate) fn skipped(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter(|line| line.starts_with("skipped: "))
}

/// Leaves out lines that a failing step may print by the thousand.
pub(crate) fn without_successes(output: &str) -> String {
    let building = ["Compiling ", "Checking ", "Downloaded ", "Downloading ", "Fresh "];
    let dull = |line: &str| {
        (line.starts_with("test ") && line.trim_end().ends_with("... ok"))
            || building.iter().any(|word| line.trim_start().starts_with(word))
    };
    output.split_inclusive('\n').filter(|line| !dull(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up_and_what_tests_nothing_fails() {
        let results = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered \
                       out\n\
                       test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured\n";
        let skipping = "skipped: a::b: no Python\ntest result: ok. 2 passed; 0 failed; 0 ignored\n";
        let empty = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let crash =
            "test result: ok. 12 passed; 0 failed; 0 ignored\nprocess didn't exit successfully\n";
        for (output, succeeded, [passed, failed, skipped]) in [
            (results, false, [15, 2, 1]),
            (skipping, true, [2, 0, 1]),
            (empty, true, [0, 1, 0]),
            (crash, false, [12, 1, 0]),
            ("warning: unused\n", true, [1, 0, 0]),
            ("error: no\n", false, [0, 1, 0]),
        ] {
            assert_eq!(count(output, succeeded), Counts { passed, failed, skipped }, "{output}");
        }
    }

    #[test]
    fn a_failure_is_shown_without_what_went_well() {
        let output =
            "   Compiling tokio\ntest a ... ok\ntest b ... FAILED\n   Checking x\nbecause\n";
        assert_eq!(without_successes(output), "test b ... FAILED\nbecause\n");
    }
}
