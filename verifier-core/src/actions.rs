//! The actions that an installation knows: the two of every one, and those that it defines.

use core::fmt;

use crate::action::{Action, Further};

/// The longest name, in characters: that of a PostgreSQL label.
const LONGEST_NAME: usize = 63;
/// The longest path, in characters.
const LONGEST_PATH: usize = 255;

/// A list of actions that passed every check: `activate`, `recover` and further ones
/// (token-format.md, "Further actions").
///
/// `A` is whatever holds the further ones: `[Further; 2]`, a borrowed slice, a `Vec`. Give it to
/// every [`KeyRing`](crate::KeyRing) that verifies their tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Actions<A = [Further; 0]> {
    further: A,
}

impl<A: AsRef<[Further]>> Actions<A> {
    /// The built-in actions and all `further` ones.
    ///
    /// # Errors
    /// [`InvalidAction`] names an action that breaks a rule, by its number, and the rule. No two
    /// actions may have the same number, name or path,
    /// and those of `activate` and `recover` are taken.
    pub fn new(further: A) -> Result<Self, InvalidAction> {
        let mut rest = further.as_ref();
        while let Some((last, before)) = rest.split_last() {
            check(*last)?;
            rest = before;
        }
        let mut rest = further.as_ref();
        while let Some((last, before)) = rest.split_last() {
            let others = before.iter().copied().map(Action::Further);
            for other in Action::BUILT_IN.into_iter().chain(others) {
                check_pair(*last, other)?;
            }
            rest = before;
        }
        Ok(Self { further })
    }

    /// Every action, the built-in ones first.
    pub fn iter(&self) -> impl Iterator<Item = Action> {
        Action::BUILT_IN
            .into_iter()
            .chain(self.further.as_ref().iter().copied().map(Action::Further))
    }

    /// The action of this name.
    pub fn named(&self, name: &str) -> Option<Action> {
        self.iter().find(|action| action.name() == name)
    }

    /// The action of this number.
    pub fn numbered(&self, number: u8) -> Option<Action> {
        self.iter().find(|action| action.number() == number)
    }
}

/// Checks an action for itself.
pub(crate) fn check(further: Further) -> Result<(), InvalidAction> {
    let Further { number, name, path, digits } = further;
    if !has_valid_number(number) {
        return Err(InvalidAction::Number { found: number });
    }
    if !has_valid_digits(digits) {
        return Err(InvalidAction::Digits { number, found: digits });
    }
    if !is_name(name) {
        return Err(InvalidAction::Name { number });
    }
    if is_path(path) { Ok(()) } else { Err(InvalidAction::Path { number }) }
}

/// Checks that two actions differ in all that identifies them.
fn check_pair(further: Further, other: Action) -> Result<(), InvalidAction> {
    let Further { number, name, path, .. } = further;
    if number == other.number() {
        Err(InvalidAction::SameNumber { number })
    } else if name == other.name() || name == other.database_value() {
        Err(InvalidAction::SameName { number, other: other.number() })
    } else if path == other.path() {
        Err(InvalidAction::SamePath { number, other: other.number() })
    } else {
        Ok(())
    }
}

pub(crate) const fn has_valid_number(number: u8) -> bool {
    matches!(number, 3..=127)
}

pub(crate) const fn has_valid_digits(digits: u8) -> bool {
    matches!(digits, 0 | 5..=8)
}

fn is_name(name: &str) -> bool {
    let begins = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    let rest = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    begins && name.len() <= LONGEST_NAME && name.bytes().all(rest)
}

fn is_path(path: &str) -> bool {
    let unreserved =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let segment =
        |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(unreserved);
    path.len() <= LONGEST_PATH
        && path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(segment))
}

/// Why a further action cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidAction {
    /// A number outside 3 to 127; 1 and 2 are `activate` and `recover`.
    Number {
        /// The number that was given.
        found: u8,
    },
    /// A code that is neither none nor of 5 to 8 digits.
    Digits {
        /// The number of the action.
        number: u8,
        /// The number of digits that was given.
        found: u8,
    },
    /// A name that is not of lower-case letters, digits and `_`.
    Name {
        /// The number of the action.
        number: u8,
    },
    /// A path that is not of `/` and unreserved characters.
    Path {
        /// The number of the action.
        number: u8,
    },
    /// Two actions have this number.
    SameNumber {
        /// The number.
        number: u8,
    },
    /// Two actions have the same name.
    SameName {
        /// The number of the one.
        number: u8,
        /// The number of the other.
        other: u8,
    },
    /// Two actions have the same path.
    SamePath {
        /// The number of the one.
        number: u8,
        /// The number of the other.
        other: u8,
    },
}

impl fmt::Display for InvalidAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { found } => {
                write!(f, "a further action has a number from 3 to 127, not {found}")
            }
            Self::Digits { number, found } => {
                write!(
                    f,
                    "action {number} has a code of 5 to 8 digits, or of 0 for none, not of {found}"
                )
            }
            Self::Name { number } => write!(
                f,
                "the name of action {number} is a lower-case letter and up to 62 lower-case \
                 letters, digits and _"
            ),
            Self::Path { number } => write!(
                f,
                "the path of action {number} is `/` and letters, digits, -, ., _ and ~, such as \
                 /invite or /team/join, of up to 255 characters"
            ),
            Self::SameNumber { number } => write!(f, "two actions have the number {number}"),
            Self::SameName { number, other } => {
                write!(f, "actions {other} and {number} have the same name")
            }
            Self::SamePath { number, other } => {
                write!(f, "actions {other} and {number} have the same path")
            }
        }
    }
}

impl core::error::Error for InvalidAction {}

/// All that verifying needs of [`Actions`]: which numbers are known, and how many digits the code
/// of each has.
#[derive(Clone, Debug)]
pub struct KnownActions {
    /// By number, one more than the digits of the code; 0 for an action that is not known.
    lengths: [u8; 128],
}

impl KnownActions {
    /// `activate` and `recover`.
    pub const BUILT_IN: Self = {
        let mut lengths = [0; 128];
        lengths[1] = Action::Activate.digits() + 1;
        lengths[2] = Action::Recover.digits() + 1;
        Self { lengths }
    };

    /// Adds a further action, for callers that keep names and paths elsewhere. A number outside 3
    /// to 127 and a number of digits that no code has are ignored,
    /// so that tokens of such an action are refused.
    pub fn add(&mut self, number: u8, digits: u8) {
        if let Some(place) = self.lengths.get_mut(usize::from(number))
            && has_valid_number(number)
            && has_valid_digits(digits)
        {
            *place = digits + 1;
        }
    }

    /// The number of digits of an action's code, 0 for one without a code; `None` for an action
    /// that is not known.
    #[inline]
    pub fn digits(&self, number: u8) -> Option<u8> {
        self.lengths.get(usize::from(number))?.checked_sub(1)
    }
}

impl<A: AsRef<[Further]>> From<&Actions<A>> for KnownActions {
    fn from(actions: &Actions<A>) -> Self {
        let mut known = Self::BUILT_IN;
        for Further { number, digits, .. } in actions.further.as_ref() {
            known.add(*number, *digits);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{format, string::ToString};

    const INVITE: Further = Further { number: 4, name: "invite", path: "/invite", digits: 0 };
    const CHANGE: Further =
        Further { number: 3, name: "change_email", path: "/account/e-mail", digits: 6 };

    #[test]
    fn an_action_is_found_by_number_and_name() {
        let actions = Actions::new([INVITE, CHANGE]).unwrap();
        assert_eq!(actions.iter().map(Action::number).collect::<std::vec::Vec<_>>(), [1, 2, 4, 3]);
        for action in actions.iter() {
            assert_eq!(actions.named(action.name()), Some(action));
            assert_eq!(actions.numbered(action.number()), Some(action));
            assert_eq!(KnownActions::from(&actions).digits(action.number()), Some(action.digits()));
        }
        assert_eq!((actions.named("Invite"), actions.numbered(5)), (None, None));
    }

    #[test]
    fn of_127_numbers_those_of_the_list_are_known() {
        let known = KnownActions::from(&Actions::new([INVITE]).unwrap());
        for number in 0..=u8::MAX {
            assert_eq!(known.digits(number).is_some(), matches!(number, 1 | 2 | 4), "{number}");
        }
    }

    #[test]
    fn a_known_number_never_changes_the_built_in_ones() {
        let mut known = KnownActions::BUILT_IN;
        for (number, digits) in
            [(0, 0), (1, 6), (2, 0), (128, 0), (255, 5), (9, 4), (9, 9), (9, 255)]
        {
            known.add(number, digits);
        }
        for number in 0..=u8::MAX {
            let expected = Action::from_number(number).map(Action::digits);
            assert_eq!(known.digits(number), expected, "{number}");
        }
    }

    #[test]
    fn each_rule_has_its_error() {
        let number = INVITE.number;
        let long = &*"n".repeat(64).leak();
        let long_path = &*format!("/{}", "p".repeat(255)).leak();
        let names = [
            "", "Invite", "_invite", "4", "in-vite", "in vite", "invité", "invite,", "invite\n",
            long,
        ];
        for name in names {
            let error = Actions::new([Further { name, ..INVITE }]).unwrap_err();
            assert_eq!(error, InvalidAction::Name { number }, "{name:?}");
        }
        let paths = [
            "",
            "/",
            "invite",
            "//invite",
            "/invite/",
            "/a//b",
            "/.",
            "/a/../b",
            "/a b",
            "/a?b",
            "/a#b",
            "/a%20",
            "/é",
            "/a,b",
            "/a:b",
            "https://a",
            long_path,
        ];
        for path in paths {
            let error = Actions::new([Further { path, ..INVITE }]).unwrap_err();
            assert_eq!(error, InvalidAction::Path { number }, "{path:?}");
        }
        for found in [0, 1, 2, 128, 255] {
            let error = Actions::new([Further { number: found, ..INVITE }]).unwrap_err();
            assert_eq!(error, InvalidAction::Number { found });
        }
        for found in [1, 4, 9, 255] {
            let error = Actions::new([Further { digits: found, ..INVITE }]).unwrap_err();
            assert_eq!(error, InvalidAction::Digits { number, found });
        }
    }

    #[test]
    fn numbers_names_and_paths_belong_to_one_action() {
        let again = |changed| Actions::new([INVITE, changed]).unwrap_err();
        assert_eq!(again(Further { number: 4, ..CHANGE }), InvalidAction::SameNumber { number: 4 });
        let error = again(Further { name: "invite", ..CHANGE });
        assert_eq!(error, InvalidAction::SameName { number: 3, other: 4 });
        let error = again(Further { path: "/invite", ..CHANGE });
        assert_eq!(error, InvalidAction::SamePath { number: 3, other: 4 });
        assert_eq!(error.to_string(), "actions 4 and 3 have the same path");
        for name in ["activate", "recover", "activation", "password_recovery"] {
            let error = again(Further { name, ..CHANGE });
            assert!(matches!(error, InvalidAction::SameName { number: 3, other: 1 | 2 }), "{name}");
        }
        for path in ["/activate", "/recover"] {
            let error = again(Further { path, ..CHANGE });
            assert!(matches!(error, InvalidAction::SamePath { number: 3, other: 1 | 2 }), "{path}");
        }
    }
}
