//! The two programs of a release: most need neither a broker nor traces, and who does has a larger
//! one.

/// What a program is built with.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Edition {
    /// By default, with all that one machine needs
    Usual,
    /// With `mailroom relay`, `mailroom send --from` and spans by OTLP beside it
    Full,
}

impl Edition {
    /// What the names of its artefacts begin with.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Usual => "mailroom",
            Self::Full => "mailroom-full",
        }
    }

    /// Features of the crate `mailroom` beside its usual ones.
    pub(crate) fn features(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Full => "rabbitmq,traces",
        }
    }

    /// The bytes of a stripped program.
    pub(crate) fn max_program(self) -> u64 {
        match self {
            Self::Usual => 10_000_000,
            Self::Full => 13_000_000,
        }
    }
}
