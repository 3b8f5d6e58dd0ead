//! How a token gets its binding, and keeps it.

use anyhow::Result;
use mailroom_tests::application::Application;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{
    NONCE, OTHER_NONCE, binding, clock, count, enqueue_bound, literal, number, product, refused,
    shown,
};

/// The bindings of all tokens, in the order in which they were made.
async fn bindings(client: &Client) -> Result<Vec<Option<Vec<u8>>>> {
    let rows = client.query("SELECT binding FROM mailroom.issued_tokens ORDER BY id", &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Inserts somebody, in a transaction with this setting.
fn registration(setting: &str, login: &str) -> String {
    format!(
        "BEGIN; SET LOCAL mailroom.binding = '{setting}';
        INSERT INTO accounts (email, login) VALUES ('{login}@example.test', '{login}'); COMMIT"
    )
}

#[tokio::test]
async fn what_a_link_carries_never_changes() -> Result<()> {
    let (_database, client) = product().await?;
    let (token, _) = enqueue_bound(&client, "sign_in", "7").await?;
    let free = client.mail("sign_in").enqueue().await?;
    let other = literal(&binding(OTHER_NONCE));
    for (token, change) in [
        (token, format!("binding = {other}")),
        (token, "binding = NULL".to_owned()),
        (free, format!("binding = {other}")),
        (token, "consumed_id = sha256('x')".to_owned()),
        (token, "code_hash = NULL".to_owned()),
        (token, "action = 1".to_owned()),
    ] {
        let update = format!("UPDATE mailroom.issued_tokens SET {change} WHERE id = {token}");
        let (code, message) = refused(&client, &update).await?;
        assert_eq!(code, SqlState::INTEGRITY_CONSTRAINT_VIOLATION, "{change}");
        assert_eq!(
            message,
            format!("action, secret, code and binding of token {token} cannot be changed")
        );
    }
    client
        .batch_execute("UPDATE mailroom.issued_tokens SET binding = binding, consumed_at = 1")
        .await?;
    assert_eq!(bindings(&client).await?, [Some(binding(NONCE)), None]);
    Ok(())
}

#[tokio::test]
async fn a_binding_of_another_length_is_refused_and_leaves_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.account("ada").active().insert().await?;
    for length in [0, 1, 15, 17, 32, 43, 1 << 20] {
        let bytes = format!("decode(repeat('ab', {length}), 'hex')");
        for call in [
            format!(
                "enqueue('activate', 'ada@example.test', subject_id => '1', binding => {bytes})"
            ),
            format!("request('ada', 'recover', binding => {bytes})"),
            format!("request('nobody', 'recover', binding => {bytes})"),
            format!("browser_code({bytes})"),
        ] {
            let (code, message) = refused(&client, &format!("SELECT mailroom.{call}")).await?;
            assert_eq!(code, SqlState::INVALID_PARAMETER_VALUE, "{call}");
            assert!(message.ends_with("(): binding is not of 16 bytes"), "{call}: {message}");
        }
    }
    let (code, _) = refused(&client, "SELECT mailroom.browser_code(NULL)").await?;
    assert_eq!(code, SqlState::INVALID_PARAMETER_VALUE);
    for table in ["issued_tokens", "browser_codes"] {
        assert_eq!(count(&client, &format!("mailroom.{table}")).await?, 0, "{table}");
    }
    Ok(())
}

#[tokio::test]
async fn the_binding_is_one_of_the_arguments_that_an_idempotency_key_stands_for() -> Result<()> {
    let (_database, client) = product().await?;
    let mail = |key: &str, nonce: Option<&str>| {
        let mail = client.mail("invite").key(key);
        match nonce {
            None => mail,
            Some(nonce) => mail.bound_to(binding(nonce)),
        }
    };
    let nonces = [None, Some(NONCE), Some(OTHER_NONCE)];
    for (key, first) in ["free", "bound", "other"].into_iter().zip(nonces) {
        let token = mail(key, first).enqueue().await?;
        for again in nonces {
            let answer = mail(key, again).enqueue().await;
            if again == first {
                assert_eq!(answer?, token);
            } else {
                let error = answer.expect_err("the key stands for another mail");
                assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "{key}: {again:?}");
            }
        }
    }
    assert_eq!(bindings(&client).await?, nonces.map(|nonce| nonce.map(binding)));
    Ok(())
}

#[tokio::test]
async fn a_registration_is_bound_by_a_setting_of_its_transaction_and_the_next_one_is_not()
-> Result<()> {
    let mut database = Database::migrated()?;
    for (drops_secrets, bound) in [(false, binding(NONCE)), (true, binding(OTHER_NONCE))] {
        if drops_secrets {
            database = database.migrate_with(&["--drop-secrets"])?;
        }
        let client = database.connect().await?;
        client.batch_execute("DELETE FROM accounts").await?;
        for (setting, login) in [
            (hexadecimal(&bound), "ada"),
            (String::new(), "bob"),
            (hexadecimal(&bound).to_uppercase(), "eve"),
        ] {
            client.batch_execute(&registration(&setting, login)).await?;
        }
        client.accounts(["x", "y"]).insert().await?;
        assert_eq!(bindings(&client).await?, [Some(bound.clone()), None, Some(bound), None, None]);
    }
    Ok(())
}

#[tokio::test]
async fn a_malformed_setting_registers_nobody_and_is_not_repeated() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let good = hexadecimal(&binding(NONCE));
    for setting in [
        &good[1..],
        &format!("{good}0"),
        &format!("\\x{good}"),
        &format!(" {good}"),
        &format!("{good}\n"),
        &format!("g{}", &good[1..]),
        &format!("ü{}", &good[1..]),
        NONCE,
        " ",
        &"ab".repeat(1 << 16),
    ] {
        let (code, message) = refused(&client, &registration(setting, "ada")).await?;
        assert_eq!(code, SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(message, "the setting mailroom.binding is not of 32 hexadecimal digits");
        client.batch_execute("ROLLBACK").await?;
    }
    for table in ["accounts", "tokens", "mailroom.issued_tokens"] {
        assert_eq!(count(&client, table).await?, 0, "{table}");
    }
    Ok(())
}

#[tokio::test]
async fn a_request_binds_its_token_and_no_other() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let client = &application.client;
    client.account("ada").active().insert().await?;
    clock::stop(client).await?;
    let request = async |who: &str, action: &str, nonce: &str| -> Result<()> {
        let query = "SELECT mailroom.request($1, $2, binding => $3)";
        client.query_one(query, &[&who, &action, &binding(nonce)]).await?;
        Ok(())
    };
    request("ada", "recover", NONCE).await?;
    request("ada", "sign_in", NONCE).await?;
    request("nobody", "recover", NONCE).await?;
    let both = [Some(binding(NONCE)), Some(binding(NONCE))];
    assert_eq!(bindings(client).await?, both);

    // Within the cooldown nothing changes, also not for whom it was.
    request("ada", "recover", OTHER_NONCE).await?;
    application.request("ada", "sign_in").await?;
    assert_eq!(bindings(client).await?, both);

    // The setting is the registrations', whether a request makes a token or not.
    clock::turn(client, 60_000).await?;
    let outer = hexadecimal(&binding(OTHER_NONCE));
    client.batch_execute(&format!("BEGIN; SET LOCAL mailroom.binding = '{outer}'")).await?;
    application.request("ada", "recover").await?;
    request("ada", "sign_in", NONCE).await?;
    request("nobody", "sign_in", NONCE).await?;
    application.register("bob").await?;
    client.batch_execute("COMMIT").await?;
    application.register("eve").await?;
    let later = [None, Some(binding(NONCE)), Some(binding(OTHER_NONCE)), None];
    assert_eq!(bindings(client).await?[2..], later);
    Ok(())
}

#[tokio::test]
async fn a_browser_shows_the_same_digits_for_a_day_and_others_afterwards() -> Result<()> {
    let (_database, client) = product().await?;
    clock::stop(&client).await?;
    let (browser, other) = (binding(NONCE), binding(OTHER_NONCE));
    let code = shown(&client, &browser).await?;
    assert!(code.len() == 5 && code.bytes().all(|digit| digit.is_ascii_digit()), "{code}");
    shown(&client, &other).await?;
    for _ in 0..3 {
        clock::turn(&client, 86_399_000).await?;
        assert_eq!(shown(&client, &browser).await?, code);
    }
    let prune = "(mailroom.prune_tokens(mailroom.clock() - interval '1 day', 0, 1000)).pruned";
    number(&client, prune).await?;
    assert_eq!(
        count(&client, "mailroom.browser_codes").await?,
        1,
        "that which was not shown is pruned"
    );
    // Digits that are drawn anew may be the same by chance, but not five times in a row.
    let mut codes = vec![code.clone()];
    for _ in 0..5 {
        clock::turn(&client, 86_400_000).await?;
        codes.push(shown(&client, &browser).await?);
    }
    assert!(codes.iter().any(|drawn| *drawn != code));
    Ok(())
}

#[tokio::test]
async fn visitors_without_cookies_leave_no_more_rows_than_come_in_a_day_also_where_nobody_prunes()
-> Result<()> {
    let (_database, client) = product().await?;
    clock::stop(&client).await?;
    let visit = |from: i32, through: i32| {
        format!(
            "SELECT mailroom.browser_code(substring(sha256(int8send(n)) FOR 16))
            FROM generate_series({from}::bigint, {through}) AS n"
        )
    };
    client.batch_execute(&visit(1, 100)).await?;
    clock::turn(&client, 86_401_000).await?;
    client.batch_execute(&visit(101, 150)).await?;
    assert_eq!(count(&client, "mailroom.browser_codes").await?, 50);
    Ok(())
}
