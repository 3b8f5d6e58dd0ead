//! The two things a link can do, and their names in every part of the system.

use core::{fmt, str::FromStr};

/// What a link does when it is followed (FORMAT.md, "Actions").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Activates a provisioned account.
    Activate,
    /// Sets a new password for an active account; asks for a code besides the link.
    Recover,
}

impl Action {
    /// Every action, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Activate, Self::Recover];

    /// The number in batch lines and in the action byte of a token: 1 or 2.
    pub const fn number(self) -> u8 {
        match self {
            Self::Activate => 1,
            Self::Recover => 2,
        }
    }

    /// The action of a number; `None` for any but 1 and 2.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Activate),
            2 => Some(Self::Recover),
            _ => None,
        }
    }

    /// The path of the link, which v1 signs: `/activate` or `/recover`.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Activate => "/activate",
            Self::Recover => "/recover",
        }
    }

    /// The name on command lines and in interfaces: `activate` or `recover`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Activate => "activate",
            Self::Recover => "recover",
        }
    }

    /// The label of the database's enum `token_action`: `activation` or `password_recovery`.
    pub const fn database_value(self) -> &'static str {
        match self {
            Self::Activate => "activation",
            Self::Recover => "password_recovery",
        }
    }

    /// The action that the database calls `value`.
    pub fn from_database_value(value: &str) -> Result<Self, UnknownAction> {
        Self::ALL.into_iter().find(|action| action.database_value() == value).ok_or(UnknownAction)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Action {
    type Err = UnknownAction;

    /// Reads the [name](Self::name), in lower case and nothing else.
    fn from_str(name: &str) -> Result<Self, UnknownAction> {
        Self::ALL.into_iter().find(|action| action.name() == name).ok_or(UnknownAction)
    }
}

/// A name that no action has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAction;

impl fmt::Display for UnknownAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an action is `activate` or `recover`")
    }
}

impl core::error::Error for UnknownAction {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_action() {
        for action in Action::ALL {
            assert_eq!(action.name().parse(), Ok(action));
            assert_eq!(Action::from_database_value(action.database_value()), Ok(action));
            assert_eq!(action.path().strip_prefix('/'), Some(action.name()));
        }
    }

    #[test]
    fn other_spellings_are_unknown() {
        for name in ["", "Activate", "ACTIVATE", "/activate", "activation", "recover ", "1"] {
            assert_eq!(name.parse::<Action>(), Err(UnknownAction), "{name:?}");
        }
    }
}
