//! The table as docs/reference/refusals.md shows it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::table::{ROWS, Row};
use super::{Meaning, Step, known};

const BEGIN: &str = "<!-- refusals -->\n";
const END: &str = "<!-- end of refusals -->\n";

/// The longest line of prose.
const WIDTH: usize = 100;

fn step(step: Step) -> &'static str {
    match step {
        Step::Hello => "greeting, EHLO, STARTTLS",
        Step::Login => "AUTH",
        Step::Sender => "MAIL",
        Step::SenderUtf8 => "MAIL with SMTPUTF8",
        Step::Recipient => "RCPT",
        Step::Data => "DATA",
        Step::Content => "content",
        Step::Api(api) => api.name,
        Step::Http => "`[http]`",
    }
}

fn meaning(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Unknown => "`dead`; no such address",
        Meaning::Recipient => "`dead`; the recipient's",
        Meaning::Mail => "`dead`; the mail's",
        Meaning::Later => "`retry`",
        Meaning::Ours => "`unavailable`; ours",
        Meaning::Unplaced => "left to the guard",
    }
}

/// The HTTP APIs that have rows of their own, each once.
fn apis() -> Vec<&'static str> {
    let mut names = Vec::new();
    for at in ROWS.iter().flat_map(|row| row.steps) {
        if let Step::Api(api) = at
            && !names.contains(&api.name)
        {
            names.push(api.name);
        }
    }
    names
}

fn line(row: &Row) -> String {
    let mut steps: Vec<_> = row.steps.iter().map(|at| step(*at)).collect();
    if steps.starts_with(&["MAIL", "MAIL with SMTPUTF8"]) {
        steps.remove(1);
    }
    if row.apis {
        steps.extend(apis());
    }
    let codes: Vec<_> = row
        .codes
        .iter()
        .map(|codes| match (codes.0, codes.1) {
            (400, 599) => "any".to_owned(),
            (first, last) if first + 99 == last => format!("{}xx", first / 100),
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}–{last}"),
        })
        .collect();
    let mut says: Vec<_> = row.names.iter().map(|name| format!("`{name}`")).collect();
    let kinds: Vec<_> = row.words.iter().map(|words| format!("*{}*", words.name)).collect();
    says.extend((!kinds.is_empty()).then(|| format!("words: {}", kinds.join(" and "))));
    says.extend(row.names_us.then(|| "our address or its domain, not the recipient's".to_owned()));
    let codes = codes.join(", ");
    let enhanced = row.enhanced.join(", ");
    let says = says.join(", ");
    format!("| {} | {codes} | {enhanced} | {says} | {} |", steps.join(", "), meaning(row.meaning))
}

fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            wrapped.push('\n');
            width = 0;
        } else if width > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += length;
    }
    wrapped
}

fn document() -> String {
    let mut text = String::from("| at | code | enhanced | says | means |\n|---|---|---|---|---|\n");
    for row in ROWS {
        writeln!(text, "{}", line(row)).unwrap();
    }
    for words in known::ALL {
        let list =
            words.list.iter().map(|word| word.replace('*', "…")).collect::<Vec<_>>().join("; ");
        // A list to look things up in: a block, whose words are no prose.
        write!(text, "\n### {}\n\n```text\n{}\n```\n", words.name, wrapped(&list)).unwrap();
    }
    text
}

#[test]
fn the_documentation_has_the_rows_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/refusals.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table has a place");
    let (shown, after) = rest.split_once(END).expect("the table has an end");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, format!("{before}{BEGIN}{}{END}{after}", document())).unwrap();
    } else {
        assert!(shown == document(), "run this test with UPDATE=1 to write the table anew");
    }
    let used: BTreeSet<_> = ROWS.iter().flat_map(|row| row.words).map(|words| words.name).collect();
    assert_eq!(used, known::ALL.iter().map(|words| words.name).collect());
}
