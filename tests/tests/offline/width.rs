//! No line of a source is longer than 100 characters, comments and strings included.

use std::fs;

use anyhow::{Context, Result};
use mailroom_tests::tools;

use crate::repository::files;

const WIDTH: usize = 100;

/// The endings of the files that are held to it. Templates of mails and pages are not: a blank more
/// is text in HTML.
const SOURCES: [&str; 14] = [
    "c", "cjs", "js", "jsonc", "lua", "mjs", "py", "rs", "sh", "sql", "svelte", "toml", "ts", "yml",
];

/// The shortest word that is taken for one that cannot be broken.
const LONG_WORD: usize = 64;

/// Whether a line is too long because of one word: an address, or a vector, hash or key.
fn cannot_be_broken(line: &str) -> bool {
    let longest = line.split_whitespace().max_by_key(|word| word.chars().count());
    longest.is_some_and(|word| {
        let word = word.trim_matches(|one: char| one.is_ascii_punctuation());
        let length = word.chars().count();
        let rest = line.trim_start().chars().count() - length;
        length >= LONG_WORD && rest < 40 && (word.contains("://") || is_encoded(word))
    })
}

/// Whether a word is hexadecimal or base64. A name has no digits, or no capitals.
fn is_encoded(word: &str) -> bool {
    let is_base64 = |one: char| one.is_ascii_alphanumeric() || "+/=_-".contains(one);
    let has_both = word.contains(|one: char| one.is_ascii_uppercase())
        && word.contains(|one: char| one.is_ascii_digit());
    word.chars().all(|one| one.is_ascii_hexdigit()) || word.chars().all(is_base64) && has_both
}

/// The numbers and lengths of the lines that are too long and could be broken.
fn long_lines(text: &str) -> Vec<(usize, usize)> {
    let lines = text.lines().enumerate();
    let lengths = lines.map(|(index, line)| (index + 1, line.chars().count(), line));
    lengths
        .filter(|(_, length, line)| *length > WIDTH && !cannot_be_broken(line))
        .map(|(number, length, _)| (number, length))
        .collect()
}

/// Programs without an ending are found by the folder of those that CI runs. The change log has no
/// tables, and is no page of the book.
fn is_source(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    SOURCES.contains(&ending) || path.starts_with(".ci/") || path == "CHANGELOG.md"
}

#[test]
fn no_line_of_a_source_is_longer_than_100_characters() -> Result<()> {
    let root = tools::workspace();
    let files: Vec<String> = files()?.into_iter().filter(|path| is_source(path)).collect();
    for ending in SOURCES {
        let has_one = files.iter().any(|file| file.ends_with(&format!(".{ending}")));
        assert!(has_one, "no file ends in .{ending}: is the list still right?");
    }
    assert!(files.len() > 800, "{} files", files.len());
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read(root.join(file)).with_context(|| file.to_owned())?;
        for (number, length) in long_lines(&String::from_utf8_lossy(&text)) {
            found.push(format!("{file}:{number} has {length} characters"));
        }
    }
    assert!(
        found.is_empty(),
        "break these lines, at most {WIDTH} characters each: code by the formatter or a name for \
         a part of it, a string by `\\` at the end of a clause, a comment at the end of a clause, \
         SQL before a keyword:\n{}",
        found.join("\n")
    );
    Ok(())
}

#[test]
fn a_line_may_be_longer_only_by_one_address_or_vector() {
    let (address, hash) = (format!("https://x.test/{}", "a".repeat(90)), "0a1B".repeat(25));
    for line in [
        "x".repeat(100),
        "é".repeat(100),
        format!("    const CERTIFICATE: &str = \"{address}\";"),
        format!("//! [1]: {address}"),
        format!("    \"{hash}\","),
    ] {
        assert_eq!(long_lines(&line), [], "{line}");
    }
    for line in [
        "word ".repeat(21),
        "é ".repeat(51),
        format!("let checked = verify(\"{hash}\", the_key_of_the_token, at_this_moment);"),
        "fn a_name_that_is_".to_owned() + &"long_and_".repeat(10) + "longer()",
        format!("{}.then(|value| value)", "call()".repeat(20)),
    ] {
        assert_eq!(long_lines(&format!("short\n{line}\n")).len(), 1, "{line}");
    }
}
