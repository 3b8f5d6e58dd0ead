//! What came out of the collector, to be compared with what the database made.

use std::collections::HashMap;

use crate::check::Verdicts;
use crate::line::{Action, Item};
use crate::people::Made;

/// The tokens that came out, by their secrets in hexadecimal.
#[derive(Default)]
pub(crate) struct Ledger(HashMap<String, (Item, Verdicts)>);

impl Ledger {
    /// Takes down a token, and returns whether it came out for the first time.
    pub(crate) fn record(&mut self, secret: String, item: Item, verdicts: Verdicts) -> bool {
        self.0.insert(secret, (item, verdicts)).is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn count(&self, wanted: impl Fn(Verdicts) -> bool) -> usize {
        self.0.values().filter(|(_, verdicts)| wanted(*verdicts)).count()
    }

    /// Any of the tokens.
    pub(crate) fn sample(&self) -> Option<&Item> {
        self.0.values().next().map(|(item, _)| item)
    }

    /// Compares with all tokens that the database made; empty when everything is as it should be.
    pub(crate) fn faults(&self, made: &[Made]) -> Vec<String> {
        let mut faults: Vec<String> = made.iter().filter_map(|token| self.fault_of(token)).collect();
        if self.len() > made.len() {
            faults.push("tokens came out that the database did not make".to_owned());
        }
        faults
    }

    fn fault_of(&self, token: &Made) -> Option<String> {
        let whose = format!("a token ({}) for {}", token.action, token.login);
        let Some((item, verdicts)) = self.0.get(&token.secret) else {
            return Some(format!("{whose} did not come out"));
        };
        let action = match item.action {
            Action::Activate => "activation",
            Action::Recover => "password_recovery",
        };
        let same = (action, &item.code, &item.email, &item.login)
            == (token.action.as_str(), &token.code, &token.email, &token.login);
        if !same {
            return Some(format!("{whose} came out with other fields"));
        }
        let verified = verdicts.mailroom && verdicts.node;
        (!verified).then(|| format!("{whose} was not verified twice"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: Verdicts = Verdicts { mailroom: true, node: true };

    fn made() -> Made {
        let [secret, action, code] = ["5ec7e7", "activation", "01234"].map(str::to_owned);
        Made { secret, action, code, email: "a@example.test".to_owned(), login: "a".to_owned() }
    }

    fn faults_after(change: impl FnOnce(&mut String, &mut Item, &mut Verdicts)) -> Vec<String> {
        let Made { mut secret, code, email, login, .. } = made();
        let mut item = Item { action: Action::Activate, email, login, token: "TOKEN".to_owned(), code };
        let mut verdicts = VALID;
        change(&mut secret, &mut item, &mut verdicts);
        let mut ledger = Ledger::default();
        ledger.record(secret, item, verdicts);
        ledger.faults(&[made()])
    }

    #[test]
    fn what_came_out_as_it_was_made_is_no_fault() {
        assert!(faults_after(|_, _, _| {}).is_empty());
    }

    #[test]
    fn a_token_that_is_missing_changed_or_not_valid_is_a_fault() {
        assert!(faults_after(|secret, _, _| secret.push('0'))[0].ends_with("did not come out"));
        assert!(faults_after(|_, item, _| item.code.push('5'))[0].ends_with("other fields"));
        assert!(faults_after(|_, item, _| item.action = Action::Recover)[0].ends_with("other fields"));
        assert!(faults_after(|_, _, verdicts| verdicts.node = false)[0].ends_with("not verified twice"));
    }

    #[test]
    fn a_token_that_nobody_made_is_a_fault() {
        let item = Item {
            action: Action::Activate,
            email: String::new(),
            login: String::new(),
            token: String::new(),
            code: String::new(),
        };
        let mut ledger = Ledger::default();
        assert!(ledger.record("00".to_owned(), item.clone(), VALID));
        assert!(!ledger.record("00".to_owned(), item, VALID));
        assert_eq!(ledger.faults(&[]).len(), 1);
    }
}
