//! Why the program cannot work.

/// A sentence that names the fault and its place. It never holds a secret,
/// a token or an address of a person.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The configuration, a template or a file of a secret has to be changed.
    #[error("{0}")]
    Configuration(String),
    /// Something outside failed: a disk, a server, a closed pipe.
    #[error("{0}")]
    Failure(String),
}

impl Error {
    /// The configuration, a template or a file of a secret has to be changed.
    pub fn configuration(sentence: impl Into<String>) -> Self {
        Self::Configuration(sentence.into())
    }

    /// Something outside failed.
    pub fn failure(sentence: impl Into<String>) -> Self {
        Self::Failure(sentence.into())
    }

    /// Whether it stays until somebody changes the configuration.
    pub fn is_of_configuration(&self) -> bool {
        matches!(self, Self::Configuration(_))
    }
}
