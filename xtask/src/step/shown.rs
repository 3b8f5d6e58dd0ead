//! Commands as one would type them.

use std::process::Command;

/// The command as one would type it, without the address of a server that ends with this process.
pub(crate) fn shown(command: &Command) -> String {
    let lasting = command.get_envs().filter(|(name, _)| *name != "MAILROOM_TEST_DATABASE_URL");
    let settings = lasting.filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), quoted(&value?.to_string_lossy())))
    });
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    settings.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let safe = |character: char| character.is_ascii_alphanumeric() || "-_./=,:%@+".contains(character);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_so_that_a_shell_reads_it_again() {
        let mut command = Command::new("cargo");
        command.args(["test", "--", "it's"]).env("KEY", "a b");
        assert_eq!(shown(&command), r"KEY='a b' cargo test -- 'it'\''s'");
    }
}
