//! How much is tested.

use std::process::Command;

use anyhow::{Result, ensure};
use mailroom_tests::postgres::Wanted;

use crate::tools::is_continuous_integration;

#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// The PostgreSQL versions, the main one first.
    pub(crate) versions: &'static [Wanted],
    /// Everything there is, in its long form.
    pub(crate) full: bool,
    /// What the suite of the web demonstration is given to choose and order its groups.
    pub(crate) groups: &'static [String],
}

impl Extent {
    pub(crate) fn new(asked: Option<&str>, full: bool, groups: &[String]) -> Result<Self> {
        let versions: Vec<Wanted> = match asked {
            None if full || is_continuous_integration() => {
                vec![Wanted::Major(15), Wanted::Major(18)]
            }
            None => vec![Wanted::from_environment()?],
            Some("all") => Wanted::majors().into_iter().map(Wanted::Major).collect(),
            Some(list) => {
                list.split(',').map(|text| Wanted::parse(text.trim())).collect::<Result<_, _>>()?
            }
        };
        let is_named = asked.is_none() || !versions.contains(&Wanted::Any);
        ensure!(is_named, "--postgres takes versions such as 15 or 15,18, or `all`");
        // They last as long as the program, so that each step may keep them.
        Ok(Self { versions: versions.leak(), full, groups: groups.to_vec().leak() })
    }

    /// Tells a test program whether to run in its long form.
    pub(crate) fn tell(self, command: &mut Command) {
        if self.full {
            command.env("MAILROOM_TEST_FULL", "1");
        }
    }
}
