//! The step that drops secrets has two triggers of its own, in which a column of tokens is easily
//! forgotten: it would be null for all accounts of an installation that took the step.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use mailroom_tests::tools;

const INSERT: &str = "INSERT INTO mailroom.issued_tokens (";

/// The columns that each statement of a file gives to the tokens that it issues.
fn issued(file: &str) -> Result<Vec<BTreeSet<String>>> {
    let text = fs::read_to_string(tools::workspace().join("migrations").join(file))?;
    let columns = |rest: &str| {
        let (columns, _) = rest.split_once(')').context("the end of the columns")?;
        Ok(columns.split(',').map(|column| column.trim().to_owned()).collect())
    };
    text.split(INSERT).skip(1).map(columns).collect()
}

#[test]
fn the_step_that_drops_secrets_issues_tokens_with_all_that_they_had() -> Result<()> {
    let accounts = issued("accounts/04_registration.sql")?;
    let [of_tokens] = &accounts[..] else { panic!("one statement is looked for: {accounts:?}") };
    // A registration has no code, and is not used.
    let mut of_accounts = of_tokens.clone();
    assert!(of_accounts.remove("code_hash") && of_accounts.remove("consumed_at"));
    assert_eq!(issued("4_drop_secrets.up.sql")?, [of_accounts, of_tokens.clone()]);
    Ok(())
}
