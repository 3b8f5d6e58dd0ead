//! The known faults of the base schema: each is there, and gone after the migrations.

use anyhow::{Context, Result};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{count, refusal};

/// Some time in 2040, in seconds since the Unix epoch.
const IN_2040: i64 = 2_208_988_800;

/// The codes of tokens that are inserted after the session's random numbers were seeded.
async fn codes_after_seeding(client: &Client) -> Result<Vec<String>> {
    client.batch_execute("SELECT setseed(0.25)").await?;
    let insert = "INSERT INTO tokens (account, action)
        SELECT account, 'password_recovery' FROM tokens, generate_series(1, 8)
            WHERE tokens.id = 1 RETURNING code";
    Ok(client.query(insert, &[]).await?.iter().map(|row| row.get(0)).collect())
}

async fn register(client: &Client, name: &str) -> Result<()> {
    client.account(name).email(name).insert().await?;
    Ok(())
}

#[tokio::test]
async fn codes_of_the_base_schema_follow_from_the_state_of_random() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, "a").await?;
    assert_eq!(codes_after_seeding(&client).await?, codes_after_seeding(&client).await?);
    Ok(())
}

#[tokio::test]
async fn codes_do_not_follow_from_the_state_of_random() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, "a").await?;
    assert_ne!(codes_after_seeding(&client).await?, codes_after_seeding(&client).await?);
    Ok(())
}

/// Brings the session's random numbers to where the next one rounds up to 100,000.
///
/// Which one that is depends on the server's version, but no chance is involved: the seed is the
/// same each time.
pub(super) async fn approach_the_code_that_does_not_fit(client: &Client) -> Result<()> {
    client.batch_execute("SELECT setseed(0.5)").await?;
    let query = "SELECT number FROM (SELECT number, random() AS value
        FROM generate_series(1, 8000000) number) drawn
        WHERE value >= 0.999996 LIMIT 1";
    let number: i32 = client.query_opt(query, &[]).await?.context("no number rounds up")?.get(0);
    client.batch_execute("SELECT setseed(0.5)").await?;
    client.query_one("SELECT count(random()) FROM generate_series(2, $1::int)", &[&number]).await?;
    Ok(())
}

#[tokio::test]
async fn the_base_schema_makes_a_code_that_nobody_can_type() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    approach_the_code_that_does_not_fit(&client).await?;
    register(&client, "a").await?;
    let code: String = client.query_one("SELECT code FROM tokens", &[]).await?.get(0);
    assert_eq!(code, "#####");
    Ok(())
}

#[tokio::test]
async fn codes_other_than_five_digits_are_refused() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, "a").await?;
    for code in
        ["#####", "", "1234", "1234a", " 1234", "12 45", "1234\n", "-1234", "٠١٢٣٤", "１２３４５"]
    {
        let insert = "INSERT INTO tokens (account, action, code) SELECT account, action, $1 \
                      FROM tokens LIMIT 1";
        let error = client.execute(insert, &[&code]).await.expect_err(code);
        let error = error.as_db_error().context("by the server")?;
        assert_eq!(error.constraint(), Some("tokens_code_five_digits"), "{code:?}");
    }
    let without = "INSERT INTO tokens (account, action, code) SELECT account, action, NULL \
                   FROM tokens LIMIT 1";
    assert_eq!(client.execute(without, &[]).await?, 1);
    Ok(())
}

/// Puts UUIDs that begin with bytes of the test's choice in the place of random ones.
async fn code_from_bytes(client: &Client, draws: &[&str]) -> Result<(String, i64)> {
    client
        .batch_execute(
            "CREATE SCHEMA IF NOT EXISTS chosen;
            DROP TABLE IF EXISTS chosen.draws;
            CREATE TABLE chosen.draws (number serial, bytes bytea);
            CREATE OR REPLACE FUNCTION chosen.gen_random_uuid() RETURNS uuid LANGUAGE sql AS $$
                DELETE FROM chosen.draws WHERE number = (SELECT min(number) FROM chosen.draws)
                RETURNING (encode(bytes, 'hex') || '-0000-4000-8000-000000000000')::uuid
            $$;
            DO $$
            DECLARE
                definition text := pg_get_functiondef('generate_token_code()'::regprocedure);
            BEGIN
                ASSERT definition ~ '(pg_catalog|chosen)\\.gen_random_uuid';
                EXECUTE replace(definition, 'pg_catalog.gen_random_uuid', 'chosen.gen_random_uuid');
            END;
            $$",
        )
        .await?;
    for draw in draws {
        client
            .execute("INSERT INTO chosen.draws (bytes) VALUES (decode($1, 'hex'))", &[draw])
            .await?;
    }
    let code = client.query_one("SELECT generate_token_code()", &[]).await?.get(0);
    Ok((code, count(client, "chosen.draws").await?))
}

#[tokio::test]
async fn numbers_that_would_favour_some_codes_are_drawn_again() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    for (draws, code) in [
        (&["00000000"][..], "00000"),
        (&["00000007"], "00007"),
        (&["0001869f"], "99999"),
        (&["000186a0"], "00000"),
        // 4,294,899,999 is the last number of the last whole hundred thousand.
        (&["fffef91f"], "99999"),
        (&["fffef920", "00000001"], "00001"),
        (&["ffffffff", "fffef920", "ffffedcb", "00012345"], "74565"),
    ] {
        assert_eq!(code_from_bytes(&client, draws).await?, (code.to_owned(), 0), "{draws:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_million_codes_are_five_digits_and_evenly_spread() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let query = "
        WITH
        drawn AS (SELECT generate_token_code() AS code FROM generate_series(1, 1000000)),
        counted AS (SELECT code, count(*) AS times FROM drawn GROUP BY code)
        SELECT
            count(*) FILTER (WHERE code !~ '^[0-9]{5}$'),
            count(*),
            -- With ten of each code expected: the sum of (times - 10)^2 / 10,
            -- codes that never came included.
            (sum((times - 10) ^ 2) + (100000 - count(*)) * 100)::float8 / 10,
            sum(times) FILTER (WHERE code < '10000')::float8 / 1000000
        FROM counted";
    let row = client.query_one(query, &[]).await?;
    assert_eq!(row.get::<_, i64>(0), 0);
    let (seen, chi_square, leading_zero): (i64, f64, f64) = (row.get(1), row.get(2), row.get(3));
    // Mean 99,999 and deviation 447: ten of them away are never met by chance, and if one code in
    // ten came twice as often as the others, it would be 25 times as far away.
    assert!((chi_square - 99_999.0).abs() < 4_470.0, "chi-square is {chi_square}");
    // One in e^10 codes does not come.
    assert!(seen > 99_900, "only {seen} different codes came");
    assert!((leading_zero - 0.1).abs() < 0.003, "{leading_zero} of the codes begin with a zero");
    Ok(())
}

/// Puts `clock.now()` of 2040 in the place of the server's.
async fn move_to_2040(client: &Client) -> Result<()> {
    client
        .batch_execute(
            "CREATE SCHEMA clock;
            CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql
                AS $$ SELECT '2040-01-01 00:00:00+00'::timestamptz $$;
            ALTER FUNCTION trg_before_account_status_change()
                SET search_path = clock, pg_catalog, public",
        )
        .await?;
    Ok(())
}

/// Evaluates each default that the clock is in, and assigns it to its column's type.
async fn defaults_in_2040(client: &Client) -> Result<Vec<Result<i64, SqlState>>> {
    let query = "SELECT format('SELECT ((%s)::%s)::bigint', pg_get_expr(adbin, adrelid),
        format_type(atttypid, atttypmod))
        FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
        WHERE pg_get_expr(adbin, adrelid) LIKE '%now()%' ORDER BY attrelid::regclass::text, attnum";
    let defaults = client.query(query, &[]).await?;
    client.batch_execute("SET search_path = clock, pg_catalog, public").await?;
    let mut times = Vec::new();
    for default in defaults {
        let evaluated = client.query_one(default.get::<_, &str>(0), &[]).await;
        times.push(match evaluated {
            Ok(row) => Ok(row.get(0)),
            Err(error) => Err(error.code().context("the server did not answer")?.clone()),
        });
    }
    client.batch_execute("RESET search_path").await?;
    Ok(times)
}

#[tokio::test]
async fn the_base_schema_ends_in_2038() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, "a").await?;
    for table in [
        "UPDATE tokens SET expires_at",
        "UPDATE tokens SET consumed_at",
        "UPDATE accounts SET created_at",
    ] {
        client.batch_execute(&format!("{table} = 2147483647")).await?;
        let (code, _) = refusal(&client, &format!("{table} = 2147483648")).await?;
        assert_eq!(code, SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "{table}");
    }
    move_to_2040(&client).await?;
    let out_of_range = || Err(SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    assert_eq!(defaults_in_2040(&client).await?, [out_of_range(), out_of_range(), out_of_range()]);
    let (code, _) = refusal(&client, "UPDATE accounts SET status = 'suspended'").await?;
    assert_eq!(code, SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    Ok(())
}

#[tokio::test]
async fn times_go_on_after_2038() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, "a").await?;
    move_to_2040(&client).await?;
    // accounts.created_at, tokens.expires_at, tokens.created_at
    let expected = [Ok(IN_2040), Ok(IN_2040 + 900), Ok(IN_2040)];
    assert_eq!(defaults_in_2040(&client).await?, expected);

    let insert = "INSERT INTO tokens (account, action, expires_at) \
                  SELECT id, 'activation', $1 FROM accounts";
    client.execute(insert, &[&IN_2040]).await?;
    client.execute("UPDATE tokens SET consumed_at = $1", &[&IN_2040]).await?;
    client.batch_execute("UPDATE accounts SET status = 'suspended'").await?;
    let query = "SELECT status_changed_at, activated_at, suspended_at FROM accounts";
    let row = client.query_one(query, &[]).await?;
    assert_eq!([0, 1, 2].map(|column: usize| row.get::<_, i64>(column)), [IN_2040; 3]);
    client.batch_execute("UPDATE accounts SET status = 'active'").await?;
    let unsuspended = client.query_one("SELECT unsuspended_at FROM accounts", &[]).await?;
    assert_eq!(unsuspended.get::<_, i64>(0), IN_2040);
    Ok(())
}

const INSERT_UNLESS_THERE: &str =
    "INSERT INTO accounts (email, login) VALUES ('a', 'a') ON CONFLICT DO NOTHING";

#[tokio::test]
async fn inserting_an_account_unless_it_is_there_fails_in_the_base_schema() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    client.batch_execute(INSERT_UNLESS_THERE).await?;
    let (code, _) = refusal(&client, INSERT_UNLESS_THERE).await?;
    assert_eq!(code, SqlState::FOREIGN_KEY_VIOLATION);
    Ok(())
}

#[tokio::test]
async fn inserting_an_account_unless_it_is_there_makes_one_token() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    for inserted in [1, 0, 0] {
        assert_eq!(client.execute(INSERT_UNLESS_THERE, &[]).await?, inserted);
        assert_eq!(count(&client, "tokens").await?, 1);
    }
    let mixed = "INSERT INTO accounts (email, login) \
                 VALUES ('a', 'x'), ('b', 'b'), ('c', 'b') ON CONFLICT DO NOTHING";
    assert_eq!(client.execute(mixed, &[]).await?, 1);
    assert_eq!(count(&client, "tokens").await?, 2);
    let update = "INSERT INTO accounts (email, login) VALUES ('a', 'other')
        ON CONFLICT (email) DO UPDATE SET login = excluded.login";
    assert_eq!(client.execute(update, &[]).await?, 1);
    assert_eq!(count(&client, "tokens").await?, 2, "an update made a token");
    Ok(())
}

const REGISTER_AND_CONSUME: [&str; 2] = [
    "INSERT INTO public.accounts (email, login) VALUES ('b', 'b')",
    "UPDATE public.tokens SET consumed_at = 1",
];

#[tokio::test]
async fn triggers_of_the_base_schema_need_the_callers_search_path() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, "a").await?;
    client.batch_execute("SET search_path = pg_catalog").await?;
    for statement in REGISTER_AND_CONSUME {
        let (code, _) = refusal(&client, statement).await?;
        assert_eq!(code, SqlState::UNDEFINED_TABLE, "{statement}");
    }
    Ok(())
}

#[tokio::test]
async fn triggers_work_with_any_search_path_and_on_their_own_tables() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "CREATE TEMPORARY TABLE tokens (LIKE public.tokens INCLUDING DEFAULTS);
            CREATE TEMPORARY TABLE accounts (LIKE public.accounts)",
        )
        .await?;
    for path in ["pg_catalog", "pg_temp, public"] {
        client.batch_execute(&format!("SET search_path = {path}")).await?;
        for statement in REGISTER_AND_CONSUME {
            client.batch_execute(&statement.replace("'b'", &format!("'{path}'"))).await?;
        }
    }
    assert_eq!(count(&client, "pg_temp.tokens").await?, 0);
    assert_eq!(count(&client, "public.tokens").await?, 2);
    assert_eq!(count(&client, "public.accounts WHERE status = 'active'").await?, 2);
    Ok(())
}
