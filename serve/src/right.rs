//! The rights of a bearer token, which are also the paths.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::{Deserialize, Deserializer, de};

use crate::function::Function;

/// What a bearer token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Call a function of the database.
    Call(Function),
    /// Wake collectors, which does not ask the database.
    Wake,
}

impl Right {
    pub(crate) const COUNT: usize = Function::ALL.len() + 1;

    const ALL: [Self; Self::COUNT] = {
        let mut all = [Self::Wake; Self::COUNT];
        let mut at = 0;
        while at < Function::ALL.len() {
            all[at] = Self::Call(Function::ALL[at]);
            at += 1;
        }
        all
    };

    /// As the file of bearer tokens calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Call(function) => function.name(),
            Self::Wake => "wake",
        }
    }

    /// The one spelling of its path.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix("/v1/").filter(|name| !name.contains('_'))?;
        Self::named(&name.replace('-', "_"))
    }

    /// Whether a rate bounds it.
    pub(crate) fn has_rate(self) -> bool {
        match self {
            Self::Call(function) => function.sends(),
            Self::Wake => true,
        }
    }

    /// Its place among all.
    pub(crate) fn place(self) -> usize {
        match self {
            Self::Call(function) => function as usize,
            Self::Wake => Function::ALL.len(),
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }
}

impl<'de> Deserialize<'de> for Right {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::named(&String::deserialize(deserializer)?)
            .ok_or_else(|| de::Error::custom(format!("a right must be one of {}", names())))
    }
}

impl ValueEnum for Right {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling_and_a_right_one_place() {
        for (place, right) in Right::ALL.into_iter().enumerate() {
            let path = format!("/v1/{}", right.name().replace('_', "-"));
            assert_eq!(Right::of_path(&path), Some(right));
            assert_eq!(right.place(), place);
        }
        for path in [
            "/v1/browser_code",
            "/v1/redeem/",
            "/v1//redeem",
            "/v1/%72edeem",
            "/v1%2fredeem",
            "/V1/redeem",
            "/v1/Redeem",
            "/v1/redeem;x",
            "/v1/./redeem",
            "/v1/",
            "/wake",
            "/",
            "",
            "*",
        ] {
            assert_eq!(Right::of_path(path), None, "{path}");
        }
    }
}
