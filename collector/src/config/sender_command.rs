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

    #[test]
    fn a_command_is_split_as_by_a_shell_and_shown_without_folders_and_arguments() {
        let command = SenderCommand::parse("/opt/send --from 'Ada <a@x.test>' $HOME `id` *.txt a|b").unwrap();
        assert_eq!(command.program, "/opt/send");
        assert_eq!(command.arguments, ["--from", "Ada <a@x.test>", "$HOME", "`id`", "*.txt", "a|b"]);
        assert_eq!(format!("{command:?}"), r#"SenderCommand { name: "send", .. }"#);
        assert!(SenderCommand::parse("# a comment").is_none());
    }
}
