//! The sets of functions that the documents give to a role.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use mailroom_tests::book;
use mailroom_tests::postgres::Database;

use crate::preflight::{Place, documented_grants};

use super::{NAMED, warnings};

/// The functions that documents grant, by the role that they call it.
fn documented_sets() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut sets = book::granted_functions()?;
    sets.retain(|_, names| !names.is_empty());
    // By the setting MAILROOM_SUPPRESS_UNKNOWN.
    sets.get_mut("collector").context("there are collectors")?.insert("suppress".to_owned());
    Ok(sets)
}

#[tokio::test]
async fn a_role_may_have_the_functions_of_one_set_of_the_documents() -> Result<()> {
    let sets = documented_sets()?;
    let roles: Vec<_> = sets.keys().map(String::as_str).collect();
    let all = [
        "application",
        "bounces",
        "collector",
        "operator",
        "privacy",
        "server",
        "support",
        "viewer",
    ];
    assert_eq!(roles, all);
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let role = format!("{}_role", database.name());
    client.batch_execute(&format!("CREATE ROLE {role}")).await?;
    let functions = "SELECT DISTINCT proname::text FROM pg_proc
        WHERE pronamespace = 'mailroom'::regnamespace AND prosecdef";
    let functions: Vec<String> =
        client.query(functions, &[]).await?.iter().map(|row| row.get(0)).collect();
    for (whose, set) in &sets {
        let granted: Vec<_> = set.iter().map(|name| format!("mailroom.{name}")).collect();
        client
            .batch_execute(&format!(
                "REVOKE ALL ON ALL ROUTINES IN SCHEMA mailroom FROM {role};
                GRANT EXECUTE ON FUNCTION {} TO {role}",
                granted.join(", ")
            ))
            .await?;
        for function in &functions {
            client
                .batch_execute(&format!(
                    "BEGIN; GRANT EXECUTE ON FUNCTION mailroom.{function} TO {role}"
                ))
                .await?;
            let rows = client.query(&warnings(), &[]).await?;
            let is_named = rows.iter().any(|row| row.get::<_, &str>(0).contains(&role));
            client.batch_execute("ROLLBACK").await?;
            let all: BTreeSet<_> = set.iter().chain([function]).cloned().collect();
            let is_documented = sets.values().any(|other| all.is_subset(other));
            assert_eq!(is_named, !is_documented, "{function} beside the functions of {whose}");
        }
    }
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    Ok(())
}

#[tokio::test]
async fn a_role_that_is_application_and_operator_has_both_by_membership() -> Result<()> {
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute(&format!(
            "SET search_path = mail; {};
            CREATE ROLE operator NOLOGIN;
            GRANT EXECUTE ON FUNCTION mailroom.status, mailroom.retry TO operator;
            CREATE ROLE site LOGIN IN ROLE application, operator;
            CREATE ROLE direct LOGIN;
            GRANT EXECUTE ON FUNCTION mailroom.enqueue, mailroom.status TO direct",
            documented_grants("mail")?
        ))
        .await?;
    let text = place.warnings()?.join("\n");
    assert_eq!(text.matches(NAMED).count(), 1, "{text}");
    assert!(text.contains("REVOKE ALL ON ALL ROUTINES IN SCHEMA mailroom FROM direct"), "{text}");

    place.mend().await?;
    place.superuser.batch_execute("GRANT application, operator TO direct").await?;
    assert!(!place.warnings()?.join("\n").contains(NAMED));
    let calls = "SELECT has_function_privilege('direct', oid, 'EXECUTE')::text FROM pg_proc
        WHERE oid IN ('mailroom.status'::regproc, 'mailroom.enqueue'::regproc)";
    assert_eq!(place.rows(calls).await?, ["true", "true"]);
    Ok(())
}

#[tokio::test]
async fn a_login_that_claims_and_redeems_by_two_roles_is_named() -> Result<()> {
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute(&format!(
            "SET search_path = mail; {};
            CREATE ROLE group_of_collectors IN ROLE collector;
            CREATE ROLE daemon LOGIN IN ROLE group_of_collectors;
            CREATE ROLE site LOGIN IN ROLE application;
            CREATE ROLE administrator LOGIN IN ROLE collector, application, owner",
            documented_grants("mail")?
        ))
        .await?;
    assert_eq!(place.warnings()?.join("\n"), "");
    for both in ["LOGIN", "LOGIN NOINHERIT"] {
        place
            .superuser
            .batch_execute(&format!(
                "CREATE ROLE \"Both\" {both} IN ROLE group_of_collectors, application"
            ))
            .await?;
        let text = place.warnings()?.join("\n");
        let sentence = "the role \"Both\" has application and collector, and so claims mails and \
                        redeems their tokens";
        assert!(text.contains(sentence), "{both}: {text}");
        place.superuser.batch_execute("DROP ROLE \"Both\"").await?;
        assert_eq!(place.warnings()?.join("\n"), "");
    }
    Ok(())
}
