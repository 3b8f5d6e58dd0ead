//! The lines of the collector: `action,email,login,token,code` repeated, without quotes.

use anyhow::{Result, ensure};

/// The fields of one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) action: Action,
    pub(crate) email: String,
    pub(crate) login: String,
    pub(crate) token: String,
    pub(crate) code: String,
}

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Activate,
    Recover,
}

impl Action {
    /// The word for it on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Activate => "activate",
            Self::Recover => "recover",
        }
    }
}

/// Takes a line apart.
pub(crate) fn parse(line: &str) -> Result<Vec<Item>> {
    let fields: Vec<&str> = line.split(',').collect();
    ensure!(
        fields.len().is_multiple_of(5),
        "a line has {} fields, not five for each token: {line}",
        fields.len()
    );
    fields
        .chunks(5)
        .map(|fields| {
            let action = match fields[0] {
                "1" => Action::Activate,
                "2" => Action::Recover,
                other => anyhow::bail!("a line has the unknown action `{other}`: {line}"),
            };
            let [email, login, token, code] = [1, 2, 3, 4].map(|index| fields[index].to_owned());
            Ok(Item { action, email, login, token, code })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_five_fields_for_each_token() {
        let items = parse("1,a@example.test,a,TOKEN,01234,2,b@example.test,b,OTHER,56789").unwrap();
        assert_eq!(items.len(), 2);
        assert_eq!((items[0].action, items[0].code.as_str()), (Action::Activate, "01234"));
        assert_eq!((items[1].action, items[1].token.as_str()), (Action::Recover, "OTHER"));
    }

    #[test]
    fn a_line_with_a_field_too_many_is_refused() {
        assert!(parse("1,a@example.test,a,TOKEN,01234,").is_err());
        assert!(parse("3,a@example.test,a,TOKEN,01234").is_err());
    }
}
