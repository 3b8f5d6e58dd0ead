//! No page shows a command that nobody has tried: it is executed by a test, or says why not.

use anyhow::{Result, ensure};
use mailroom_tests::{book, tools};

/// Programs by whose names a line is a command.
const PROGRAMS: [&str; 25] = [
    "apt-get",
    "cargo",
    "cat",
    "chown",
    "createdb",
    "curl",
    "docker",
    "git",
    "jq",
    "kill",
    "mailroom",
    "mv",
    "node",
    "npm",
    "npx",
    "openssl",
    "pg_basebackup",
    "pg_dump",
    "pg_restore",
    "pip",
    "psql",
    "python3",
    "rustup",
    "sudo",
    "systemctl",
];

/// Pages whose blocks of bash are followed as a whole, and by what.
const FOLLOWED: [(&str, &str); 6] = [
    ("operate/install.md", "packaging/test/common.sh"),
    ("start/first-mail.md", "verifier-wasm/npm/test/start/main.mjs"),
    ("start/reset-password.md", "verifier-wasm/npm/test/start/main.mjs"),
    ("guides/other-templates.md", "verifier-wasm/npm/test/mails/elsewhere.mjs"),
    ("guides/inbox.md", "tests/tests/database/dev/document.rs"),
    ("guides/migrate/verify-hmac.md", "verifier-wasm/npm/test/readme/main.mjs"),
];

/// Says before a block why no test executes it.
const REASON: &str = "<!-- not executed: ";

/// Whether a line of a block is a command for a shell.
fn is_command(line: &str) -> bool {
    let words = line.trim_start().trim_start_matches("$ ").split_whitespace();
    let is_variable = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        })
    };
    let mut words = words.skip_while(is_variable);
    let name = words.next().unwrap_or_default();
    // A line of SQL, or of a configuration, can begin with the same word.
    PROGRAMS.contains(&name) && words.next().is_none_or(|word| word != "=" && word != ":")
}

/// What is wrong with the blocks of a page, a line for each.
fn faults(name: &str, page: &str) -> Vec<String> {
    let is_followed = FOLLOWED.iter().any(|(followed, _)| *followed == name);
    let mut faults = Vec::new();
    let (mut before, mut is_indented) = ("", false);
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let text = line.trim_start();
        if let Some(language) = text.strip_prefix("```") {
            let block = lines.by_ref().map(|(_, line)| line);
            let block: Vec<_> = block.take_while(|line| line.trim() != "```").collect();
            let is_executed = match language {
                // Compared with the program by the test of the reference.
                "console" => name == "reference/cli.md",
                "bash" => is_followed || before.starts_with(REASON),
                // Executed; other languages have words that are also names of programs.
                "sh" | "js" | "ts" | "sql" | "toml" | "json" | "python" | "rust" | "html" => true,
                _ => before.starts_with(REASON),
            };
            // Of bash whatever it begins with: all of it is for a shell.
            let command = block.iter().find(|line| language == "bash" || is_command(line));
            if let Some(command) = command.filter(|_| !is_executed) {
                faults.push(format!("{name}:{}: {}", index + 1, command.trim()));
            }
            is_indented = false;
        } else {
            is_indented = line.starts_with("    ") && (before.is_empty() || is_indented);
            if is_indented && is_command(line) {
                faults.push(format!("{name}:{}: {} is in no fence", index + 1, text));
            }
        }
        before = text;
    }
    faults
}

#[test]
fn every_command_of_a_page_is_executed_or_says_why_not() -> Result<()> {
    let root = tools::workspace();
    let docs = root.join("docs");
    let mut found = Vec::new();
    let mut pages = book::pages()?;
    for name in book::BEFORE_THE_BOOK {
        pages.push(root.join(name));
    }
    for page in pages {
        let name = page.strip_prefix(&docs).or_else(|_| page.strip_prefix(root))?;
        found.extend(faults(&name.display().to_string(), &std::fs::read_to_string(&page)?));
    }
    ensure!(
        found.is_empty(),
        "put these commands into a block of `sh`, which a test executes, or into one of `bash` \
         after a line `{REASON}REASON -->`:\n{}",
        found.join("\n")
    );
    for (page, test) in FOLLOWED {
        let text = std::fs::read_to_string(root.join(test))?;
        let file = page.rsplit('/').next().unwrap_or(page);
        let name = file.trim_end_matches(".md");
        ensure!(text.contains(name), "{test} does not follow {page}");
    }
    Ok(())
}

#[test]
fn what_is_found_in_a_page() {
    let found = |page: &str| faults("guides/x.md", page).len();
    assert_eq!(found("```sh\nmailroom status\n```\n"), 0);
    assert_eq!(found("```bash\nmailroom status\n```\n"), 1);
    assert_eq!(
        found("<!-- not executed: it needs a server -->\n```bash\nmailroom status\n```\n"),
        0
    );
    assert_eq!(found("```\n$ MAILROOM_X=1 mailroom status\n```\n"), 1);
    assert_eq!(found("Text:\n\n    mailroom status\n"), 1);
    assert_eq!(found("1. Text:\n\n       npm install x\n"), 1);
    assert_eq!(found("```bash\nskopeo copy x y\n```\n"), 1);
    assert_eq!(found("Text:\n\n    # As its owner:\n    mailroom status\n"), 1);
    assert_eq!(found("1. Text\n    mailroom status says so.\n"), 0);
    assert_eq!(found("```toml\nmailroom = 1\n```\n"), 0);
}
