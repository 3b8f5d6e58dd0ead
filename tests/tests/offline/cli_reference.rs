//! The reference of the command line is what the program's help says.

use std::fmt::Write as _;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use mailroom_tests::{program, tools};

const PAGE: &str = "docs/reference/cli.md";

/// What follows in the page is written by this test.
const MARK: &str = "<!-- What follows is the help of the program: UPDATE=1 writes it anew. -->\n";

/// Columns of a block, which fit a page of the book.
const COLUMNS: &str = "80";

/// The lines of a help below a heading, such as `Commands:`.
fn below<'a>(help: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    let lines = help.lines().skip_while(move |line| *line != heading).skip(1);
    lines.take_while(|line| line.starts_with("  "))
}

fn help_of(command: &str) -> Result<String> {
    let mut program = program::mailroom()?;
    program.args(command.split_whitespace()).arg("--help").env("COLUMNS", COLUMNS);
    let output = program.output()?;
    ensure!(output.status.success(), "mailroom {command} --help fails");
    Ok(String::from_utf8(output.stdout)?)
}

/// The section of a command, and of those below it.
fn section(command: &str, page: &mut String) -> Result<()> {
    let help = help_of(command)?;
    let text = help.trim_end();
    let text: Vec<_> = text.lines().map(str::trim_end).collect();
    let text = text.join("\n");
    write!(
        page,
        "\n### mailroom {command}\n\n```console\n$ mailroom {command} --help\n{text}\n```\n"
    )?;
    for line in below(&help, "Commands:") {
        let is_name = line.chars().nth(2).is_some_and(char::is_lowercase);
        if let Some(name) = line.split_whitespace().next().filter(|name| is_name && *name != "help")
        {
            section(&format!("{command} {name}"), page)?;
        }
    }
    Ok(())
}

fn generated() -> Result<String> {
    let help = help_of("")?;
    let mut page = String::new();
    for group in help.lines().filter_map(|line| line.strip_suffix(':')) {
        if group.starts_with(' ') || ["Options", "Environment", "Usage"].contains(&group) {
            continue;
        }
        write!(page, "\n## {group}\n")?;
        for line in below(&help, &format!("{group}:")) {
            let name = line.split_whitespace().next().context("a name")?;
            if name != "help" {
                section(name, &mut page)?;
            }
        }
    }
    Ok(page)
}

#[test]
fn the_reference_of_the_command_line_is_the_help_of_the_program() -> Result<()> {
    let path = tools::workspace().join(PAGE);
    let page = fs::read_to_string(&path)?;
    let (written, reference) = page.split_once(MARK).context("the page has no mark")?;
    let generated = generated()?;
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, format!("{written}{MARK}{generated}"))?;
        return Ok(());
    }
    for (line, expected) in reference.lines().zip(generated.lines()) {
        ensure!(
            line == expected,
            "{PAGE} has `{line}`, the help of the program `{expected}`; set UPDATE=1 for this test"
        );
    }
    ensure!(reference == generated, "{PAGE} ends elsewhere; set UPDATE=1 for this test");
    Ok(())
}

#[test]
fn help_fits_the_terminal_and_has_no_colour_in_a_pipe() -> Result<()> {
    for (columns, widest) in [("60", 60), ("100", 100), ("300", 100)] {
        let mut program = program::mailroom()?;
        let output = program.args(["collect", "--help"]).env("COLUMNS", columns).output()?;
        let help = String::from_utf8(output.stdout)?;
        let longest = help
            .lines()
            // A name of an option, or an example, is not broken.
            .filter(|line| {
                !line.trim_start().starts_with(['-', '#', '[']) && !line.contains("mailroom")
            })
            .map(|line| line.chars().count())
            .max();
        ensure!(longest.is_some_and(|longest| longest <= widest), "{columns}: {longest:?}\n{help}");
        ensure!(!help.contains('\u{1b}'), "{help}");
    }
    Ok(())
}

#[test]
fn colours_are_forced_or_forbidden_by_the_variables_that_everybody_knows() -> Result<()> {
    let errors = |variables: &[(&str, &str)]| -> Result<String> {
        let mut program = program::mailroom()?;
        program.arg("status").env_remove("NO_COLOR").envs(variables.iter().copied());
        Ok(String::from_utf8(program.output()?.stderr)?)
    };
    ensure!(errors(&[("CLICOLOR_FORCE", "1")])?.starts_with("\u{1b}["), "a colour");
    for plain in [&[][..], &[("NO_COLOR", "1")], &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]] {
        let errors = errors(plain)?;
        ensure!(errors.starts_with("mailroom: MAILROOM_DATABASE_URL"), "{plain:?}: {errors}");
    }
    Ok(())
}

#[test]
fn completions_know_every_command_and_option() -> Result<()> {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = program::mailroom()?.args(["completions", shell]).output()?;
        ensure!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout)?;
        for word in ["collect", "without-accounts", "batch-limit"] {
            ensure!(script.contains(word), "{word} is not in the completions of {shell}");
        }
    }
    let output = program::mailroom()?.args(["completions", "tcsh"]).output()?;
    let errors = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(2), "{errors}");
    ensure!(errors.starts_with("mailroom: <SHELL> is `tcsh`, but must be `bash` or"), "{errors}");
    Ok(())
}

#[test]
fn the_completions_of_bash_complete_in_bash() -> Result<()> {
    let script = program::mailroom()?.args(["completions", "bash"]).output()?.stdout;
    let test = "\nCOMP_WORDS=(mailroom migrate st) COMP_CWORD=2\n\
                _mailroom mailroom st migrate\necho \"${COMPREPLY[@]}\"\n";
    let script = String::from_utf8(script)? + test;
    let output = std::process::Command::new("bash").args(["--norc", "-c", &script]).output()?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(said.trim() == "status", "{said}{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[test]
fn every_command_has_a_manual_page_with_examples() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pages = folder.path().join("new/man1");
    let output = program::mailroom()?.arg("man").arg(&pages).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (name, words) in [
        ("mailroom.1", &["mailroom\\-collect(1)", "ENVIRONMENT"][..]),
        ("mailroom-collect.1", &["EXAMPLES", "MAILROOM_SENDER", "EXIT STATUS"]),
        ("mailroom-migrate-up.1", &["EXAMPLES", "without\\-accounts"]),
    ] {
        let page = fs::read_to_string(pages.join(name)).with_context(|| name.to_owned())?;
        for word in words {
            ensure!(page.contains(word), "{name} has no {word}:\n{page}");
        }
        ensure!(!page.contains('\u{1b}'), "{name} has a colour");
    }
    fs::write(folder.path().join("file"), "")?;
    let output = program::mailroom()?.arg("man").arg(folder.path().join("file")).output()?;
    ensure!(output.status.code() == Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
