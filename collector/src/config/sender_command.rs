//! The command that is a sender.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

/// A program with its arguments.
#[derive(Clone, PartialEq, Eq)]
pub struct SenderCommand {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
}

impl SenderCommand {
    /// Splits a text into words as a shell does: at blanks, with quotes, backslashes and comments. Nothing else of a
    /// shell happens: no variables, no patterns, no pipes. `None` if it is empty or a quote does not end.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = shlex::split(text)?.into_iter();
        let program = words.next().filter(|program| !program.is_empty())?;
        Some(Self { program, arguments: words.collect() })
    }

    /// The program's name without folders, for the log. Arguments are not shown: they may be secret.
    pub fn name(&self) -> String {
        let name = Path::new(&self.program).file_name().unwrap_or(OsStr::new(&self.program));
        name.to_string_lossy().chars().filter(|character| !character.is_control()).take(64).collect()
    }
}

/// Without the arguments.
impl fmt::Debug for SenderCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SenderCommand").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Option<Vec<String>> {
        SenderCommand::parse(text).map(|command| [vec![command.program], command.arguments].concat())
    }

    #[test]
    fn a_command_is_split_as_a_shell_would_and_no_shell_runs() {
        for (text, expected) in [
            ("send-mails", vec!["send-mails"]),
            ("  /opt/send   --from 'Ada <ada@x.test>' ", vec!["/opt/send", "--from", "Ada <ada@x.test>"]),
            (r#"send "a \" b" c\ d ''"#, vec!["send", "a \" b", "c d", ""]),
            ("send $HOME `id` *.txt ~ a|b;c>d", vec!["send", "$HOME", "`id`", "*.txt", "~", "a|b;c>d"]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        for text in ["", "  \t", "''", "\"\" x", "send 'x", "send \"x", "# a comment"] {
            assert_eq!(words(text), None, "{text:?}");
        }
    }

    #[test]
    fn neither_arguments_nor_folders_are_shown() {
        let command = SenderCommand::parse("/home/ada/send --password hunter2").unwrap();
        assert_eq!(format!("{command:?}"), r#"SenderCommand { name: "send", .. }"#);
    }
}
