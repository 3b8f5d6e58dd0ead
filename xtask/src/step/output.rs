//! What the output of a step says.

use std::fmt;

/// How many tests ended how. A step that runs none counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Counts {
    /// The numbers behind a verdict, where they say more than that.
    pub(crate) fn in_words(self) -> String {
        if self.passed + self.failed + self.skipped > 1 { format!("   {self}") } else { String::new() }
    }
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
    let mut counts = Counts::default();
    let mut is_test = false;
    for line in output.lines().map(plain) {
        // What a test or a run prints that cannot happen on this machine.
        counts.skipped += usize::from(line.starts_with("skipped: "));
        let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|line| line.split_once(". "))
        else {
            continue;
        };
        is_test = true;
        for part in numbers.split("; ") {
            match part.split_once(' ') {
                Some((number, "passed")) => counts.passed += number.parse::<usize>().unwrap_or(0),
                Some((number, "failed")) => counts.failed += number.parse::<usize>().unwrap_or(0),
                Some((number, "ignored")) => counts.skipped += number.parse::<usize>().unwrap_or(0),
                _ => {}
            }
        }
    }
    // A compiler that complains and a test that crashes print no result line.
    if succeeded && !is_test {
        counts.passed = 1;
    }
    // A selection that matches no test has tested nothing, however well that went.
    let tested_nothing = is_test && counts.passed + counts.skipped == 0;
    if (!succeeded || tested_nothing) && counts.failed == 0 {
        counts.failed = 1;
    }
    counts
}

/// Leaves out the lines of which a failing step may have thousands.
pub(crate) fn without_successes(output: &str) -> String {
    let dull = |line: &str| {
        let line = plain(line);
        let building = ["Compiling ", "Checking ", "Downloaded ", "Downloading ", "Fresh "];
        (line.starts_with("test ") && line.trim_end().ends_with("... ok"))
            || building.iter().any(|word| line.trim_start().starts_with(word))
    };
    output.split_inclusive('\n').filter(|line| !dull(line)).collect()
}

/// Without the control sequences that colour a terminal.
pub(crate) fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        text.push_str(before);
        rest =
            after.find(|character: char| character.is_ascii_alphabetic()).map_or("", |end| &after[end + 1..]);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_test_programs_are_added_up() {
        let output = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            \x1b[32mtest result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured\x1b[0m\n";
        assert_eq!(count(output, false), Counts { passed: 15, failed: 2, skipped: 1 });
        let output = "skipped: a::b: no Python\ntest result: ok. 2 passed; 0 failed; 0 ignored\n";
        assert_eq!(count(output, true), Counts { passed: 2, failed: 0, skipped: 1 });
    }

    #[test]
    fn a_command_without_tests_counts_as_one() {
        assert_eq!(count("warning: unused\n", true), Counts { passed: 1, failed: 0, skipped: 0 });
        assert_eq!(count("error: no\n", false), Counts { passed: 0, failed: 1, skipped: 0 });
    }

    #[test]
    fn a_selection_that_matches_no_test_is_a_failure() {
        let output = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(count(output, true), Counts { passed: 0, failed: 1, skipped: 0 });
    }

    #[test]
    fn tests_that_crash_are_a_failure_though_no_result_says_so() {
        let output = "test result: ok. 12 passed; 0 failed; 0 ignored\nprocess didn't exit successfully\n";
        assert_eq!(count(output, false), Counts { passed: 12, failed: 1, skipped: 0 });
    }

    #[test]
    fn a_failure_is_shown_without_what_went_well() {
        let output =
            "   Compiling tokio\ntest a ... ok\ntest b ... FAILED\n\x1b[1m   Checking x\x1b[0m\nbecause\n";
        assert_eq!(without_successes(output), "test b ... FAILED\nbecause\n");
    }
}
