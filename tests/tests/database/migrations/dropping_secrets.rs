//! The step that takes the secrets out of the table of the accounts' tokens,
//! when the operator asks for it.

use anyhow::Result;
use mailroom_tests::application::{Application, Redemption};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::postgres::Database;

use super::schema::description;
use super::{fail, newest, succeed};

/// The secrets and codes that wait to be sent, with the actions' names in the base schema, in the
/// order of the tokens.
async fn waiting(application: &Application) -> Result<Vec<(String, Vec<u8>, Option<String>)>> {
    let query =
        "SELECT CASE action WHEN 1 THEN 'activation' ELSE 'password_recovery' END, secret, code
        FROM mailroom.queue JOIN mailroom.issued_tokens ON id = token ORDER BY id";
    let rows = application.client.query(query, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// The rows of all tables as text, as a backup has them.
async fn all_rows(application: &Application) -> Result<String> {
    let tables = "SELECT pg_class.oid::regclass::text FROM pg_class
        WHERE relkind = 'r' AND relnamespace IN ('public'::regnamespace, 'mailroom'::regnamespace)";
    let mut rows = String::new();
    for table in application.client.query(tables, &[]).await? {
        let table: &str = table.get(0);
        let query = format!("SELECT coalesce(string_agg(row::text, ' '), '') FROM {table} AS row");
        rows += application.client.query_one(&query, &[]).await?.get(0);
    }
    Ok(rows)
}

#[tokio::test]
async fn it_is_taken_only_when_asked_for_and_does_not_go_back() -> Result<()> {
    let database = Database::create()?;
    succeed(&database, &["up"])?;
    assert!(succeed(&database, &["status"])?.ends_with(&format!("version {}\n", newest())));
    succeed(&database, &["up", "--drop-secrets"])?;
    assert_eq!(succeed(&database, &["up"])?, "no migration is missing\n");
    assert!(succeed(&database, &["status"])?.contains("applied  4_drop_secrets"));
    let refusal = fail(&database, &["down", "--yes"])?;
    assert!(refusal.contains("secrets that were dropped do not come back"), "{refusal}");
    Ok(())
}

#[tokio::test]
async fn a_database_that_was_taken_over_and_an_empty_one_end_with_the_same_schema() -> Result<()> {
    let (old, empty) = (Database::with_base_schema()?, Database::create()?);
    succeed(&old, &["up", "--baseline", "0", "--drop-secrets"])?;
    succeed(&empty, &["up", "--drop-secrets"])?;
    let (old, empty) = (old.connect().await?, empty.connect().await?);
    assert_eq!(description(&old).await?, description(&empty).await?);
    Ok(())
}

#[tokio::test]
async fn afterwards_accounts_are_registered_and_recovered_and_no_backup_has_what_was_sent()
-> Result<()> {
    let database = Database::create()?;
    succeed(&database, &["up", "--drop-secrets"])?;
    let application = Application::connect(&database).await?;
    application.account("a").insert().await?;
    application.account("b").active().insert().await?;
    application.request("b", "password_recovery").await?;
    let secrets = waiting(&application).await?;
    let backup = all_rows(&application).await?;
    assert!(
        secrets.len() == 2
            && secrets.iter().all(|(_, secret, _)| backup.contains(&hexadecimal(secret)))
    );
    let claim = "SELECT mailroom.claim(1, ARRAY[gen_random_uuid()], 10, true, 10, 0, NULL, NULL,
        90000, 30, '{1,2}', true);
        SELECT mailroom.settle(ARRAY(SELECT batch FROM mailroom.leases), '{}', '{}', '{}', '{}',
            '{}', 3, 1000, 30)";
    application.client.batch_execute(claim).await?;
    let backup = all_rows(&application).await?;
    assert!(secrets.iter().all(|(_, secret, _)| !backup.contains(&hexadecimal(secret))));
    for (account, (action, secret, code)) in (1..).zip(secrets) {
        assert_eq!(
            application.redeem(&secret, &action, code.as_deref()).await?,
            Redemption::ok(account)
        );
    }
    let used = "SELECT count(*) FROM mailroom.issued_tokens WHERE consumed_at IS NOT NULL";
    assert_eq!(application.client.query_one(used, &[]).await?.get::<_, i64>(0), 2);
    let active = "SELECT count(*) FROM accounts WHERE status = 'active'";
    assert_eq!(application.client.query_one(active, &[]).await?.get::<_, i64>(0), 2);
    Ok(())
}

#[tokio::test]
async fn it_waits_until_no_link_of_old_can_be_used() -> Result<()> {
    let database = Database::with_base_schema()?;
    succeed(&database, &["up", "--baseline", "0"])?;
    let client = database.connect().await?;
    // As one that a collector of old had sent, and that no migration has seen.
    client.account("a").insert().await?;
    client.batch_execute("DELETE FROM mailroom.queue; DELETE FROM mailroom.issued_tokens").await?;
    let refusal = fail(&database, &["up", "--drop-secrets"])?;
    assert!(refusal.contains("a token of the base schema can still be used"), "{refusal}");
    client.batch_execute("UPDATE tokens SET consumed_at = 1").await?;
    succeed(&database, &["up", "--drop-secrets"])?;
    Ok(())
}

#[tokio::test]
async fn afterwards_a_registration_has_no_row_in_tokens_and_what_is_inserted_there_is_sent()
-> Result<()> {
    let database = Database::create()?;
    succeed(&database, &["up", "--drop-secrets"])?;
    let application = Application::connect(&database).await?;
    let client = &application.client;
    client.accounts(["a", "b", "c"]).insert().await?;
    client.account("d").active().insert().await?;
    client
        .batch_execute(
            "SELECT mailroom.request('a', 'activate', cooldown => '0'), mailroom.request('d',
                'recover')",
        )
        .await?;
    client.token().insert_for_each(&[2]).await?;
    let query = "SELECT array_agg(account ORDER BY tokens.id), bool_and(queue.token IS NOT NULL)
        FROM tokens LEFT JOIN mailroom.queue ON queue.token = tokens.id";
    let row = client.query_one(query, &[]).await?;
    assert_eq!((row.get::<_, Vec<i64>>(0), row.get(1)), (vec![1, 4, 2], true));
    let secrets = waiting(&application).await?;
    assert_eq!(secrets.len(), 6);

    // The row that the application inserted is marked as used with the token, and activates as
    // those without one do.
    assert_eq!(application.redeem(&secrets[5].1, "activation", None).await?, Redemption::ok(2));
    assert_eq!(application.redeem(&secrets[0].1, "activation", None).await?, Redemption::ok(1));
    let query = "SELECT (SELECT bool_and(consumed_at IS NOT NULL) FROM tokens WHERE account < 3), \
                 array_agg(id ORDER BY id) FROM accounts WHERE status = 'active'";
    let row = client.query_one(query, &[]).await?;
    assert_eq!((row.get(0), row.get::<_, Vec<i64>>(1)), (true, vec![1, 2, 4]));
    Ok(())
}

#[tokio::test]
async fn afterwards_the_tokens_of_an_account_are_deleted_with_it_and_those_of_others_are_not()
-> Result<()> {
    let database = Database::create()?;
    succeed(&database, &["up", "--drop-secrets"])?;
    let application = Application::connect(&database).await?;
    let client = &application.client;
    client.accounts(["a", "b"]).at("x.test").insert().await?;
    client.mail("sign_in").to("a@x.test").name("a").subject(1).enqueue().await?;
    client.mail("invite").to("x@x.test").name("x").subject(1).enqueue().await?;
    client.batch_execute("DELETE FROM accounts WHERE login = 'a'").await?;
    let query = "SELECT string_agg(name || ' ' || recipient_email, ', ' ORDER BY id)
        FROM mailroom.queue JOIN mailroom.issued_tokens ON id = token JOIN mailroom.actions
            ON number = action";
    assert_eq!(
        client.query_one(query, &[]).await?.get::<_, &str>(0),
        "activate b@x.test, invite x@x.test"
    );
    let query = "SELECT count(*) FROM mailroom.issued_tokens";
    assert_eq!(client.query_one(query, &[]).await?.get::<_, i64>(0), 2);
    Ok(())
}

#[tokio::test]
async fn afterwards_links_are_good_for_as_long_as_the_default_of_tokens_said() -> Result<()> {
    for (default, seconds) in [
        ("SET DEFAULT extract(epoch FROM now() + interval '3 hours')", 10_800),
        ("SET DEFAULT (extract(epoch FROM now()))::bigint + 60", 60),
        ("SET DEFAULT extract(epoch FROM now()) + 1", 60),
        ("SET DEFAULT 9000000000000000000", 366 * 86_400),
        ("DROP DEFAULT", 900),
        ("SET DEFAULT 0", 900),
    ] {
        let database = Database::create()?;
        succeed(&database, &["up"])?;
        let client = database.connect().await?;
        client.batch_execute(&format!("ALTER TABLE tokens ALTER expires_at {default}")).await?;
        succeed(&database, &["up", "--drop-secrets"])?;
        client.account("a").insert().await?;
        // Times are cut to seconds, the later one upwards.
        let query = "SELECT (expires_at - created_at)::integer - 1 FROM mailroom.issued_tokens";
        let lifetime: i32 = client.query_one(query, &[]).await?.get(0);
        assert_eq!(lifetime, seconds, "{default}");

        // Afterwards the action has it.
        client
            .batch_execute("UPDATE mailroom.actions SET lifetime = '2 hours' WHERE number = 1")
            .await?;
        client.account("b").insert().await?;
        let lifetime: i32 =
            client.query_one(&format!("{query} WHERE subject_id = '2'"), &[]).await?.get(0);
        assert_eq!(lifetime, 7_200, "{default}");
    }
    Ok(())
}

#[tokio::test]
async fn it_waits_for_nobody_who_has_enqueued() -> Result<()> {
    let database = Database::create()?;
    succeed(&database, &["up"])?;
    let mut client = database.connect().await?;
    let transaction = client.transaction().await?;
    transaction.mail("activate").to("a@x.test").subject("1").enqueue().await?;
    succeed(&database, &["up", "--drop-secrets"])?;
    transaction.commit().await?;
    Ok(())
}

#[tokio::test]
async fn afterwards_a_product_may_have_its_own_accounts_for_activations() -> Result<()> {
    let database = Database::create()?;
    succeed(&database, &["up", "--drop-secrets"])?;
    let application = Application::connect(&database).await?;
    let client = &application.client;
    client
        .batch_execute(
            "CREATE FUNCTION everybody(subject_ids text[], is_redemption boolean)
                RETURNS TABLE (subject_id text, email text, name text)
                LANGUAGE sql SECURITY DEFINER AS
                    'SELECT id, ''other@x.test'', id FROM unnest($1) AS id';
            UPDATE mailroom.actions SET eligibility = 'public.everybody(text[], boolean)'
                WHERE number = 1",
        )
        .await?;
    client.accounts(["a", "b"]).at("x.test").insert().await?;
    client.batch_execute("DELETE FROM mailroom.queue").await?;
    client.mail("activate").to("other@x.test").name("x").subject("1").enqueue().await?;
    // Whoever reads that mail does not get the account with the same id.
    let secrets = waiting(&application).await?;
    assert_eq!(application.redeem(&secrets[0].1, "activation", None).await?, Redemption::ok(1));
    let active = "SELECT count(*) FROM accounts WHERE status = 'active'";
    assert_eq!(client.query_one(active, &[]).await?.get::<_, i64>(0), 0);
    client.batch_execute("DELETE FROM accounts").await?;
    assert_eq!(
        client
            .query_one("SELECT count(*) FROM mailroom.issued_tokens", &[])
            .await?
            .get::<_, i64>(0),
        0
    );
    Ok(())
}

#[tokio::test]
async fn afterwards_dead_letters_that_expired_go_out_again_as_they_were() -> Result<()> {
    let database = Database::create()?;
    succeed(&database, &["up", "--drop-secrets"])?;
    let client = database.connect().await?;
    // An account's address and name need not be such that enqueue() takes them.
    client.accounts(["a\n", "b"]).emails(["no address", "b@x.test"]).insert().await?;
    client
        .mail("activate")
        .to("b@x.test")
        .name("Dr B")
        .subject("2")
        .payload("{\"k\": 1}")
        .language("de")
        .enqueue()
        .await?;
    client
        .batch_execute(
            "INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures,
                priority, reason)
                SELECT token, now(), 1, 1, 1, priority, '' FROM mailroom.queue;
            DELETE FROM mailroom.queue;
            UPDATE mailroom.issued_tokens SET expires_at = 1",
        )
        .await?;
    assert_eq!(client.query("SELECT * FROM mailroom.retry_all()", &[]).await?.len(), 3);
    let query = "SELECT recipient_email, recipient_name, language, has_payload
        FROM mailroom.queue JOIN mailroom.issued_tokens ON id = token ORDER BY id";
    let rows = client.query(query, &[]).await?;
    let again: Vec<(&str, &str, Option<&str>, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    let expected = [
        ("no address", "a\n", None, false),
        ("b@x.test", "b", None, false),
        ("b@x.test", "Dr B", Some("de"), true),
    ];
    assert_eq!(again, expected);
    Ok(())
}

#[tokio::test]
async fn afterwards_links_live_as_the_action_says_also_where_it_was_restored_without_triggers()
-> Result<()> {
    let database = Database::create()?;
    succeed(&database, &["up", "--drop-secrets"])?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "SET session_replication_role = replica;
            UPDATE mailroom.actions SET lifetime = '3 hours' WHERE number = 1;
            SET session_replication_role = origin",
        )
        .await?;
    client.account("a").insert().await?;
    let lifetime = "SELECT (expires_at - created_at) / 60 FROM mailroom.issued_tokens";
    assert_eq!(client.query_one(lifetime, &[]).await?.get::<_, i64>(0), 180);
    Ok(())
}
