//! `--action` and `--further-action`: the actions that a command knows, and the one that is meant.

use mailroom_verifier_core::{Action, Actions, Further};

use super::CommandError;
use crate::config::{Setting, digits as whole, must_be};

#[derive(clap::Args)]
pub(super) struct ActionArguments {
    /// What the link does: activate, recover or the name of a further action
    #[arg(long)]
    action: String,

    /// A further action, such as invite=4:/invite:0; DIGITS are those of its code, 0 for none. Can
    /// be given several times
    #[arg(long, value_name = "NAME=NUMBER:PATH:DIGITS", value_parser = Setting(further_action))]
    #[arg(env = "MAILROOM_FURTHER_ACTIONS", value_delimiter = ',')]
    further_action: Vec<Further>,
}

impl ActionArguments {
    /// The action that is meant, and all that are known.
    pub(super) fn read(&self) -> Result<(Action, Actions<&[Further]>), CommandError> {
        let actions = Actions::new(self.further_action.as_slice())
            .map_err(|error| CommandError::Usage(format!("--further-action: {error}")))?;
        let action = actions.named(&self.action).ok_or_else(|| {
            let names =
                actions.iter().map(|action| format!("`{action}`")).collect::<Vec<_>>().join(" or ");
            // As clap has it for other values. What was given is not shown: it may be a token.
            CommandError::Usage(format!(
                "the value of --action <ACTION> is missing or cannot be used: an action is \
                 {names}\nFor more information, try `--help`."
            ))
        })?;
        Ok((action, actions))
    }
}

/// Reads an action. Its rules are those of [`Actions`].
fn further_action(text: &str) -> Result<Further, String> {
    let read = || {
        let (name, rest) = text.split_once('=')?;
        let [number, path, digits] = rest.split(':').collect::<Vec<_>>().try_into().ok()?;
        // The process ends soon, and the texts may live as long as it.
        let leak = |text: &str| &*text.to_owned().leak();
        let number = whole(number)?;
        let digits = whole(digits)?;
        Some(Further { number, name: leak(name), path: leak(path), digits })
    };
    read().ok_or_else(|| must_be(text, "NAME=NUMBER:PATH:DIGITS, such as invite=4:/invite:0"))
}
