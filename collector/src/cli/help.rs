//! The help: commands in groups, lines that fit a terminal, and the closing of every command.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::styling::Styles;

use super::closings::{CLOSINGS, Closing, ENVIRONMENT};

/// Columns of the longest line, also on a wider terminal.
const WIDTH: usize = 100;

/// Columns of a command's name in the help of the program.
const NAME: usize = 13;

/// The commands of the program, in the order of its help. A test says which is missing.
pub(super) const GROUPS: [(&str, &[&str]); 7] = [
    ("Try", &["dev"]),
    ("Prepare", &["init", "migrate", "keygen", "check"]),
    ("Run", &["collect", "send", "relay", "bounces", "serve"]),
    ("Look", &["status", "dead", "trace", "actions", "ui"]),
    ("Repair", &["retry", "discard", "suppress", "prune", "subject"]),
    ("Make and judge links", &["sign", "verify"]),
    ("Learn", &["completions", "man", "help"]),
];

/// Gives every command its help.
pub(super) fn describe(root: Command) -> Command {
    let template = template(&root);
    with_closing(root, "").help_template(template).after_help(environment())
}

fn with_closing(command: Command, path: &str) -> Command {
    let command = command
        .max_term_width(WIDTH)
        .mut_args(|arg| arg.hide_env_values(true))
        .mut_subcommands(|sub| {
            let path = format!("{path} {}", sub.get_name());
            with_closing(sub, path.trim_start())
        });
    let closings: Vec<_> = CLOSINGS.iter().filter(|closing| closing.is_of(path)).collect();
    if closings.is_empty() { command } else { command.after_help(closing_text(&closings)) }
}

impl Closing {
    /// Whether this is about the command, or about a command below it: `migrate up` is also of
    /// `migrate`.
    fn is_of(&self, path: &str) -> bool {
        let rest = self.command.strip_prefix(path);
        !path.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

/// Examples and exit statuses. A command with commands below it shows one example of each.
fn closing_text(closings: &[&Closing]) -> String {
    let header = *Styles::styled().get_header();
    let mut text = format!("{header}Examples:{header:#}");
    let shown = if closings.len() == 1 { usize::MAX } else { 1 };
    for (purpose, line) in closings.iter().flat_map(|closing| closing.examples.iter().take(shown)) {
        write!(text, "\n  # {purpose}\n  {line}").expect("a string takes all that is written");
    }
    if let [closing] = closings {
        write!(text, "\n\n{header}Exit status:{header:#}")
            .expect("a string takes all that is written");
        for (status, meaning) in closing.ends {
            write!(text, "\n  {status:<3} {meaning}").expect("a string takes all that is written");
        }
    }
    text
}

fn environment() -> String {
    let header = *Styles::styled().get_header();
    let mut text = format!("{header}Environment:{header:#}");
    for (name, meaning) in ENVIRONMENT {
        write!(text, "\n  {name:<22} {meaning}").expect("a string takes all that is written");
    }
    text + "\n\n`mailroom COMMAND --help` says more of a command, and shows examples."
}

/// The help of the program, with the commands in groups, for which clap has no place.
fn template(root: &Command) -> String {
    let styles = Styles::styled();
    let (header, literal) = (*styles.get_header(), *styles.get_literal());
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in GROUPS {
        write!(text, "\n{header}{group}:{header:#}\n").expect("a string takes all that is written");
        for name in names {
            let about = match root.find_subcommand(name).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None if *name == "help" => "Print the help of the program or of a command".into(),
                // A command that this program was built without.
                None => continue,
            };
            writeln!(text, "  {literal}{name:<NAME$}{literal:#}{about}")
                .expect("a string takes all that is written");
        }
    }
    text + &format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cli::definition;

    /// Every command without commands below it, by its path.
    fn leaves(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
        let mut below = command.get_subcommands().peekable();
        if below.peek().is_none() {
            found.push((path.to_owned(), command.clone()));
        }
        for sub in below {
            leaves(sub, format!("{path} {}", sub.get_name()).trim_start(), found);
        }
    }

    fn all_leaves() -> Vec<(String, Command)> {
        let mut found = Vec::new();
        leaves(&definition(), "", &mut found);
        found
    }

    #[test]
    fn every_command_is_in_one_group_and_described_in_one_line() {
        let root = definition();
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).collect();
        let all: BTreeSet<_> = grouped.iter().copied().collect();
        assert_eq!(all.len(), grouped.len(), "a command is in two groups");
        for command in root.get_subcommands() {
            let (name, about) = (command.get_name(), command.get_about().map(ToString::to_string));
            assert!(all.contains(&name), "put the command `{name}` into GROUPS");
            let columns = 2 + NAME + about.unwrap_or_default().chars().count();
            assert!(columns <= WIDTH, "the first sentence of `{name}` has {columns} columns");
        }
    }

    #[test]
    fn every_command_has_examples_that_it_takes_and_its_exit_statuses() {
        for (path, _) in all_leaves() {
            let closing = CLOSINGS.iter().find(|closing| closing.command == path);
            let closing = closing.unwrap_or_else(|| panic!("give `{path}` examples in CLOSINGS"));
            assert!(!closing.examples.is_empty() && !closing.ends.is_empty(), "{path}");
            for (purpose, line) in closing.examples {
                assert!(purpose.len() + 4 <= WIDTH && line.len() + 2 <= WIDTH, "{line}");
                let words = shlex::split(line.split(" | ").next().unwrap()).expect("a command");
                let start = words.iter().position(|word| word == "mailroom").expect("mailroom");
                let command = definition().mut_subcommands(|sub| sub.mut_args(without_variable));
                let words = words[start..].iter().take_while(|word| !word.contains('>'));
                let taken = command.try_get_matches_from(words);
                let matches = taken.unwrap_or_else(|error| panic!("{line}: {error}"));
                let mut named = Vec::new();
                let mut at = &matches;
                while let Some((name, below)) = at.subcommand() {
                    named.push(name);
                    at = below;
                }
                assert_eq!(named.join(" "), path, "{line}");
            }
        }
    }

    fn without_variable(arg: clap::Arg) -> clap::Arg {
        arg.env(None::<&str>)
    }

    #[test]
    fn every_closing_belongs_to_a_command() {
        let leaves: BTreeSet<_> = all_leaves().into_iter().map(|(path, _)| path).collect();
        if cfg!(all(
            feature = "relay",
            feature = "dev",
            feature = "bounces",
            feature = "serve",
            feature = "ui"
        )) {
            for closing in CLOSINGS {
                let command = closing.command;
                // One that runs by itself may have commands below it.
                let is_above = |leaf: &String| leaf.starts_with(&format!("{command} "));
                let is_command = leaves.contains(command) || leaves.iter().any(is_above);
                assert!(is_command, "{command} is no command");
            }
        }
    }

    #[test]
    fn no_line_of_a_help_is_wider_than_the_limit() {
        let mut root = definition().disable_help_subcommand(true);
        // An option of a command can name one that all commands have.
        root.build();
        let mut all = vec![(String::new(), root.clone())];
        leaves(&root, "", &mut all);
        for (path, command) in all {
            for help in [command.clone().render_help(), command.clone().render_long_help()] {
                for line in help.to_string().lines() {
                    assert!(line.chars().count() <= WIDTH, "{path}: {line}");
                }
            }
        }
    }

    #[test]
    fn every_option_of_collect_stands_below_a_heading() {
        let root = definition();
        let collect = root.find_subcommand("collect").unwrap();
        for arg in collect.get_arguments() {
            assert!(arg.get_help_heading().is_some(), "{} has no heading", arg.get_id());
        }
    }
}
