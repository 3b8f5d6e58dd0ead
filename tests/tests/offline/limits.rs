//! No test fails because the machine does something else for a while: what a test waits for may
//! take a minute.

use std::fs;
use std::path::Path;

use anyhow::Result;
use mailroom_tests::tools;

/// Where there are tests.
const FOLDERS: [&str; 6] = [
    "collector/tests",
    "sender/tests",
    "tests",
    "verifier-wasm/npm/test",
    "web-demo/test",
    "xtask/tests",
];

/// What stands before a limit of time, and how many of its units are a minute.
const LIMITS: [(&str, u64); 11] = [
    ("timeout(Duration::from_secs(", 60),
    ("timeout(Duration::from_millis(", 60_000),
    ("elapsed() < Duration::from_secs(", 60),
    ("elapsed() < Duration::from_millis(", 60_000),
    ("elapsed() > Duration::from_secs(", 60),
    ("PATIENCE: Duration = Duration::from_secs(", 60),
    ("PATIENCE: Duration = Duration::from_millis(", 60_000),
    ("timeout: ", 60_000),
    ("PATIENCE = ", 60_000),
    ("AbortSignal.timeout(", 60_000),
    ("performance.now() - started < ", 60_000),
];

/// Says why a limit is short: that it passes is what is tested, or that it does not.
const REASON: &str = "// Short";

/// The lines with a limit below a minute and no reason for it.
fn short_limits(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let short = |line: &str| {
        // How long something goes on, or has to take.
        let is_limit = |before: &&(&str, u64)| {
            let is_bound =
                !before.0.contains("elapsed() >") || line.trim_start().starts_with("if ");
            is_bound && !line.trim_start().starts_with("while ")
        };
        LIMITS.iter().filter(is_limit).any(|(before, minute)| {
            let behind = line.split_once(before).map_or("", |(_, behind)| behind);
            let digits: String =
                behind.chars().take_while(|one| one.is_ascii_digit() || *one == '_').collect();
            digits.replace('_', "").parse().is_ok_and(|limit: u64| limit < *minute)
        })
    };
    let has_reason = |number: usize| {
        let above = lines[..number].iter().rev().map(|line| line.trim());
        above.take_while(|line| line.starts_with("//")).any(|line| line.starts_with(REASON))
    };
    let found =
        lines.iter().enumerate().filter(|(number, line)| short(line) && !has_reason(*number));
    found.map(|(_, line)| *line).collect()
}

/// Every source of a folder.
fn sources(folder: &Path, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "node_modules" {
            sources(&path, found)?;
        } else if [".rs", ".mjs", ".cjs", ".js"].iter().any(|end| name.ends_with(end)) {
            found.push(path.display().to_string());
        }
    }
    Ok(())
}

#[test]
fn no_test_waits_for_less_than_a_minute_without_a_reason() -> Result<()> {
    let mut files = Vec::new();
    for folder in FOLDERS.map(|folder| tools::workspace().join(folder)) {
        if folder.is_dir() {
            sources(&folder, &mut files)?;
        }
    }
    assert!(files.len() > 150, "{} files", files.len());
    let this = Path::new(file!()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with(&*this)) {
        let text = fs::read_to_string(file)?;
        found.extend(short_limits(&text).iter().map(|line| format!("{file}: {}", line.trim())));
    }
    assert!(
        found.is_empty(),
        "a limit below a minute, which a busy machine exceeds:\n{}",
        found.join("\n")
    );
    Ok(())
}

#[test]
fn a_short_limit_is_found_unless_a_reason_stands_above_it() {
    for text in [
        "timeout(Duration::from_secs(4), settle).await??;",
        "    receiver.recv_timeout(Duration::from_millis(59_999))",
        "assert!(start.elapsed() < Duration::from_secs(11));",
        "const PATIENCE = 20_000;",
        "await link.waitFor({ timeout: 10_000 });",
        "fetch(url, { signal: AbortSignal.timeout(300) })",
        "if began.elapsed() > Duration::from_secs(30) {",
        "// Something else.\ntimeout(Duration::from_secs(4), settle)",
    ] {
        assert_eq!(short_limits(text).len(), 1, "{text}");
    }
    for text in [
        "timeout(Duration::from_secs(60), settle).await??;",
        "receiver.recv_timeout(PATIENCE)",
        "sleep(Duration::from_millis(20)).await;",
        "assert!(start.elapsed() >= Duration::from_secs(1));",
        "assert!(start.elapsed() > Duration::from_secs(1));",
        "while start.elapsed() < Duration::from_secs(4) {",
        "const PATIENCE: Duration = Duration::from_secs(80);",
        "{ timeout: 60_000 + PATIENCE }",
        "// Short, because it does not come.\ntimeout(Duration::from_secs(4), never)",
        "// Short, because it does\n// not come.\ntimeout(Duration::from_secs(4), never)",
    ] {
        assert!(short_limits(text).is_empty(), "{text}");
    }
}
