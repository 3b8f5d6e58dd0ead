//! What a link can do, and its names in every part of the system.

use core::{fmt, str::FromStr};

/// What a link does when it is followed (token-format.md, "Further actions").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Activates a provisioned account.
    Activate,
    /// Sets a new password for an active account; asks for a code besides the link.
    Recover,
    /// What an installation defines itself. Signers and verifiers take it once
    /// [`Actions`](crate::Actions) has accepted it.
    Further(Further),
}

/// An action of an installation: plain data, which [`Actions`](crate::Actions) checks.
///
/// None of it may change once links were sent. Its texts are `'static`, since actions are as old as
/// the process; a program that reads them from its configuration leaks them once.
///
/// ```
/// use mailroom_verifier_core::{Actions, Further};
///
/// const INVITE: Further = Further { number: 4, name: "invite", path: "/invite", digits: 0 };
/// let actions = Actions::new([INVITE])?;
/// # Ok::<(), mailroom_verifier_core::InvalidAction>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Further {
    /// The number in batch lines and in the action byte of a token, from 3 to 127.
    pub number: u8,
    /// The name on command lines and in interfaces.
    pub name: &'static str,
    /// The path of the link. No format but v1 signs paths, and v1 signs no further action.
    pub path: &'static str,
    /// The number of digits of the code, from 5 to 8; 0 for an action without a code.
    pub digits: u8,
}

impl Action {
    /// The actions of every installation, in the order of their numbers.
    pub const BUILT_IN: [Self; 2] = [Self::Activate, Self::Recover];

    /// The number in batch lines and in the action byte of a token:
    /// 1, 2, or that of a further action.
    pub const fn number(self) -> u8 {
        match self {
            Self::Activate => 1,
            Self::Recover => 2,
            Self::Further(further) => further.number,
        }
    }

    /// The built-in action of a number; `None` for any but 1 and 2.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Activate),
            2 => Some(Self::Recover),
            _ => None,
        }
    }

    /// The path of the link: `/activate`, `/recover`, or that of a further action.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Activate => "/activate",
            Self::Recover => "/recover",
            Self::Further(further) => further.path,
        }
    }

    /// The name on command lines and in interfaces: `activate`, `recover`,
    /// or that of a further action.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Activate => "activate",
            Self::Recover => "recover",
            Self::Further(further) => further.name,
        }
    }

    /// The number of digits of the code that belongs to the link; 0 for an action without a code.
    pub const fn digits(self) -> u8 {
        match self {
            Self::Activate => 0,
            Self::Recover => 5,
            Self::Further(further) => further.digits,
        }
    }

    /// The label of the database's enum `token_action`: `activation`, `password_recovery`, or the
    /// name of a further action.
    pub const fn database_value(self) -> &'static str {
        match self {
            Self::Activate => "activation",
            Self::Recover => "password_recovery",
            Self::Further(further) => further.name,
        }
    }

    /// The built-in action that the database calls `value`.
    pub fn from_database_value(value: &str) -> Result<Self, UnknownAction> {
        Self::BUILT_IN
            .into_iter()
            .find(|action| action.database_value() == value)
            .ok_or(UnknownAction)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Action {
    type Err = UnknownAction;

    /// Reads the [name](Self::name) of a built-in action, in lower case and nothing else.
    fn from_str(name: &str) -> Result<Self, UnknownAction> {
        Self::BUILT_IN.into_iter().find(|action| action.name() == name).ok_or(UnknownAction)
    }
}

/// A name that no built-in action has.
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
        for action in Action::BUILT_IN {
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
