//! A command line that no shell reads.

use std::fmt;

/// A program with its arguments.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandWords {
    /// Its path, or its name, which is looked for in `PATH`.
    pub program: String,
    /// What it is called with.
    pub arguments: Vec<String>,
}

/// Without arguments, which may be secret.
impl fmt::Debug for CommandWords {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CommandWords({})", self.program)
    }
}

impl CommandWords {
    /// Splits a text into words as a shell does: at blanks, with quotes, backslashes and comments.
    /// Nothing else of a shell happens: no variables, no patterns, no pipes. `None` if it is empty
    /// or a quote does not end.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = shlex::split(text)?.into_iter();
        let program = words.next().filter(|program| !program.is_empty())?;
        Some(Self { program, arguments: words.collect() })
    }
}
