//! The cooldown and the ceiling of `mailroom.request`.

use anyhow::Result;
use mailroom_tests::application::Application;
use mailroom_tests::postgres::Database;
use tokio_postgres::error::SqlState;

use super::{ACTIVATION, RECOVERY, made_ago, request_with};

#[tokio::test]
async fn within_the_cooldown_nothing_more_is_made() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    for who in ["a", "a", "a@example.test"] {
        application.request(who, RECOVERY).await?;
        assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 1);
    }
    for (ago, cooldown, made) in [
        (20, "60 seconds", 0),
        (60, "60 seconds", 1),
        (3000, "1 hour", 0),
        (3600, "1 hour", 1),
        (0, "0 seconds", 1),
        (-5, "0 seconds", 1),
        (-1000, "60 seconds", 0),
    ] {
        application.client.execute("DELETE FROM tokens", &[]).await?;
        made_ago(&application, account, ago).await?;
        request_with(&application, "a", RECOVERY, &format!("cooldown => '{cooldown}'")).await?;
        assert_eq!(application.count_tokens("").await?, 1 + made, "{ago} s ago, {cooldown}");
    }
    Ok(())
}

#[tokio::test]
async fn the_mail_of_the_registration_counts_and_that_of_another_action_does_not() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    application.request("a", ACTIVATION).await?;
    assert_eq!(application.count_tokens("").await?, 1);
    application.set_status(account, "active").await?;
    application.request("a", RECOVERY).await?;
    assert_eq!(application.count_tokens("").await?, 2);
    Ok(())
}

#[tokio::test]
async fn no_more_than_the_ceiling_is_made_in_its_period() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    for (made, ago, limits, more) in [
        (4, 3000, "", 1),
        (5, 3000, "", 0),
        (9, 3605, "", 1),
        (1, 3000, ", at_most => 1", 0),
        (1, 3000, ", at_most => 1, per => '10 minutes'", 1),
        (20, 80_000, ", at_most => 20, per => '1 day'", 0),
        (50, 3000, ", per => '0 s'", 1),
        (50, 3000, ", at_most => 2147483647, per => '31 days'", 1),
    ] {
        application.client.execute("DELETE FROM tokens", &[]).await?;
        for _ in 0..made {
            made_ago(&application, account, ago).await?;
        }
        request_with(&application, "a", RECOVERY, &format!("'60 s'{limits}")).await?;
        assert_eq!(
            application.count_tokens("").await?,
            made + more,
            "{made} of {ago} s ago{limits}"
        );
    }
    Ok(())
}

/// A stranger who asks for every mail leaves her one that works, whichever browsers he names.
#[tokio::test]
async fn the_last_mail_of_several_is_for_any_browser_where_it_has_a_code() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let bindings = "SELECT coalesce(encode(binding, 'hex'), '') FROM mailroom.issued_tokens
        JOIN tokens USING (id) WHERE tokens.action <> 'activation' ORDER BY id";
    let bound = |count: usize| (1..=count).map(|browser| format!("{browser:032x}"));
    for (at_most, expected) in [
        (5, bound(4).chain([String::new()]).collect::<Vec<_>>()),
        (2, bound(1).chain([String::new()]).collect()),
        // There is no other for the browser that asked.
        (1, bound(1).collect()),
    ] {
        application.client.execute("DELETE FROM tokens", &[]).await?;
        for browser in 1..=at_most + 1 {
            let limits = format!("'0 s', {at_most}, binding => '\\x{browser:032x}'");
            request_with(&application, "a", RECOVERY, &limits).await?;
        }
        let made = application.client.query(bindings, &[]).await?;
        let made: Vec<String> = made.iter().map(|row| row.get(0)).collect();
        assert_eq!(made, expected, "{at_most}");
    }
    // A button alone may be pressed by a scanner.
    application.client.execute("DELETE FROM tokens", &[]).await?;
    application.set_status(account, "provisioned").await?;
    for browser in 1..=3 {
        let limits = format!("'0 s', 3, binding => '\\x{browser:032x}'");
        request_with(&application, "a", ACTIVATION, &limits).await?;
    }
    let unbound = "SELECT count(*) FROM mailroom.issued_tokens WHERE binding IS NULL";
    assert_eq!(application.client.query_one(unbound, &[]).await?.get::<_, i64>(0), 0);
    assert_eq!(application.count_tokens("").await?, 3);
    Ok(())
}

#[tokio::test]
async fn limits_of_no_sense_are_refused_whoever_is_named() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.register_and_activate("a").await?;
    for limits in [
        "'-1 s'",
        "'1 s', 0",
        "'1 s', -1",
        "'1 s', NULL",
        "'1 s', 1, '-1 hour'",
        "'1 s', 1, NULL",
        "'31 days 1 s'",
        "'1 s', 1, '31 days 1 s'",
        "'1 s', 1, '178000000 years'",
    ] {
        for who in ["a", "nobody"] {
            let error = request_with(&application, who, RECOVERY, limits).await.expect_err(limits);
            assert_eq!(error.code(), &SqlState::INVALID_PARAMETER_VALUE, "{limits}");
            assert_eq!(error.message(), "the limits of mailroom.request() are out of range");
        }
    }
    assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 0);
    Ok(())
}
