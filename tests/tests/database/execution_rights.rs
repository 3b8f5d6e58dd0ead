//! Who may call the application's functions, and what they make of what callers bring along.

use anyhow::{Context, Result};
use mailroom::migrate::{self, MIGRATIONS};
use mailroom_tests::application::{Application, Redemption};
use mailroom_tests::collector::{self, Collector, wait_until};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use tokio_postgres::error::SqlState;

const ACTIVATION: &str = "activation";
const RECOVERY: &str = "password_recovery";

/// A role of the whole server that lives as long as a test.
struct Role<'a> {
    name: String,
    owner: &'a Application,
}

impl<'a> Role<'a> {
    async fn create(database: &Database, owner: &'a Application, rights: &[&str]) -> Result<Self> {
        let name = format!("{}_application", database.name());
        owner.client.batch_execute(&format!("CREATE ROLE {name}")).await?;
        for right in rights {
            owner.client.batch_execute(&format!("GRANT {right} TO {name}")).await?;
        }
        Ok(Self { name, owner })
    }

    /// Another connection, with the rights of this role alone.
    async fn connect(&self, database: &Database) -> Result<Application> {
        let application = Application::connect(database).await?;
        application.client.batch_execute(&format!("SET ROLE {}", self.name)).await?;
        Ok(application)
    }

    async fn drop(self) -> Result<()> {
        let name = &self.name;
        Ok(self
            .owner
            .client
            .batch_execute(&format!("DROP OWNED BY {name}; DROP ROLE {name}"))
            .await?)
    }
}

const REDEEM: &str = "EXECUTE ON FUNCTION mailroom.redeem";
const REQUEST: &str = "EXECUTE ON FUNCTION mailroom.request";

#[tokio::test]
async fn two_functions_are_all_an_application_needs_of_the_tokens() -> Result<()> {
    let database = Database::migrated()?;
    let owner = Application::connect(&database).await?;
    let account = owner.register("a").await?;
    let role = Role::create(&database, &owner, &[REDEEM, REQUEST]).await?;
    let application = role.connect(&database).await?;

    let token = owner.newest_token(account, ACTIVATION).await?;
    assert_eq!(application.redeem(&token.secret, ACTIVATION, None).await?, Redemption::ok(account));
    application.request("a", RECOVERY).await?;
    let token = owner.newest_token(account, RECOVERY).await?;
    let code = token.code.as_deref();
    assert_eq!(
        application.redeem(&token.secret, RECOVERY, Some("")).await?,
        Redemption::refused("wrong_code")
    );
    assert_eq!(application.redeem(&token.secret, RECOVERY, code).await?, Redemption::ok(account));

    for statement in [
        "SELECT secret FROM tokens",
        "SELECT code FROM tokens",
        "SELECT secret FROM mailroom.queue",
        "SELECT secrets FROM mailroom.leases",
        "SELECT secret FROM mailroom.dead_letters",
        "SELECT secret FROM mailroom.adopted_tokens",
        "SELECT count(*) FROM mailroom.issued_tokens",
        "SELECT mailroom.cancel(1)",
        "UPDATE tokens SET consumed_at = NULL",
        "DELETE FROM mailroom.code_attempts",
        "SELECT count(*) FROM mailroom.code_attempts",
    ] {
        let error = application.client.batch_execute(statement).await.expect_err(statement);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{statement}");
    }
    drop(application);
    role.drop().await
}

#[tokio::test]
async fn nobody_calls_the_functions_who_was_not_allowed_to() -> Result<()> {
    let database = Database::migrated()?;
    let owner = Application::connect(&database).await?;
    let account = owner.register("a").await?;
    let token = owner.newest_token(account, ACTIVATION).await?;
    let role = Role::create(&database, &owner, &["SELECT ON accounts"]).await?;
    let stranger = role.connect(&database).await?;
    let errors = [
        stranger.redeem(&token.secret, ACTIVATION, None).await.map(|_| ()),
        stranger.request("a", ACTIVATION).await,
    ];
    for error in errors {
        let error = error.expect_err("it was not granted");
        let error = error.as_db_error().context("by the server")?;
        assert_eq!(error.code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{error}");
        assert!(error.message().contains("permission denied for function re"), "{error}");
    }
    assert!(!owner.is_used(token.id).await?);
    drop(stranger);
    role.drop().await
}

#[tokio::test]
async fn everybody_may_ask_what_an_address_is() -> Result<()> {
    let database = Database::migrated()?;
    let owner = Application::connect(&database).await?;
    let role = Role::create(&database, &owner, &[]).await?;
    let stranger = role.connect(&database).await?;
    let long = "'a.name.that.is.longer.than.what.needs.no.further.look@example.test'";
    for address in ["'ada@example.test'", long, "'ädä@exämple.test'"] {
        for function in ["is_address", "is_addressable", "normal_address", "map_address"] {
            let call = format!("SELECT mailroom.{function}({address})");
            stranger.client.batch_execute(&call).await.with_context(|| call)?;
        }
    }
    drop(stranger);
    role.drop().await
}

#[tokio::test]
async fn tables_and_paths_of_the_caller_change_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let owner = Application::connect(&database).await?;
    let application = Application::connect(&database).await?;
    application
        .client
        .batch_execute(
            "CREATE TEMPORARY TABLE tokens (LIKE public.tokens INCLUDING DEFAULTS);
            CREATE TEMPORARY TABLE accounts (LIKE public.accounts INCLUDING DEFAULTS);
            CREATE TEMPORARY TABLE issued_tokens (LIKE mailroom.issued_tokens INCLUDING DEFAULTS);
            CREATE TEMPORARY TABLE code_attempts (LIKE mailroom.code_attempts)",
        )
        .await?;
    for path in ["pg_temp, public", "public, pg_temp, pg_catalog"] {
        let account = owner.register_and_activate(path).await?;
        application.client.batch_execute(&format!("SET search_path = {path}")).await?;
        application.request(path, RECOVERY).await?;
        let token = owner.newest_token(account, RECOVERY).await?;
        let answer = application.redeem(&token.secret, RECOVERY, Some("")).await?;
        assert_eq!(answer, Redemption::refused("wrong_code"), "{path}");
        let answer = application.redeem(&token.secret, RECOVERY, token.code.as_deref()).await?;
        assert_eq!(answer, Redemption::ok(account), "{path}");
        assert_eq!(owner.attempts(token.id).await?, 2, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn functions_and_operators_of_the_callers_path_are_not_called_where_a_token_is_made()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.batch_execute("CREATE SCHEMA planted").await?;
    for (name, parameters, result) in [
        ("gen_random_uuid", "", "uuid"),
        ("left", "text, integer", "text"),
        ("to_char", "bigint, text", "text"),
        ("pg_try_advisory_xact_lock_shared", "integer, integer", "boolean"),
        ("joined", "text, text", "text"),
        ("less", "bigint, bigint", "boolean"),
        ("rest", "bigint, bigint", "bigint"),
        ("same_action", "public.token_action, public.token_action", "boolean"),
        ("other_status", "public.account_status, public.account_status", "boolean"),
    ] {
        client
            .batch_execute(&format!(
                "CREATE FUNCTION planted.{name}({parameters}) RETURNS {result} LANGUAGE plpgsql
                    AS $$ BEGIN RAISE EXCEPTION 'planted.{name} was called'; END $$"
            ))
            .await?;
    }
    client
        .batch_execute(
            "CREATE OPERATOR planted.|| (LEFTARG = text, RIGHTARG = text, FUNCTION =
            planted.joined);
            CREATE OPERATOR planted.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION =
                planted.less);
            CREATE OPERATOR planted.% (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION =
                planted.rest);
            CREATE OPERATOR planted.= (LEFTARG = public.token_action, RIGHTARG =
                public.token_action, FUNCTION = planted.same_action);
            CREATE OPERATOR planted.<> (LEFTARG = public.account_status, RIGHTARG =
                public.account_status, FUNCTION = planted.other_status);
            SET search_path = planted, pg_catalog, public",
        )
        .await?;
    let error =
        client.query("SELECT left('a', 1)", &[]).await.expect_err("the planted one comes first");
    assert!(error.as_db_error().context("by the server")?.message().contains("planted.left"));
    client
        .batch_execute(
            "INSERT INTO accounts (email, login) VALUES ('a', 'a');
            INSERT INTO tokens (account, action) SELECT id, 'password_recovery' FROM accounts;
            SELECT mailroom.enqueue('invite', 'ada@example.test')",
        )
        .await?;
    let queued = client.query("SELECT FROM mailroom.queue", &[]).await?;
    assert_eq!(queued.len(), 3);
    Ok(())
}

#[tokio::test]
async fn a_registration_needs_no_right_on_tokens() -> Result<()> {
    let database = Database::migrated()?;
    let owner = Application::connect(&database).await?;
    let rights =
        ["INSERT (email, login), SELECT (id) ON accounts", "USAGE ON SEQUENCE accounts_id_seq"];
    let role = Role::create(&database, &owner, &rights).await?;
    let application = role.connect(&database).await?;
    let account = application.register("a").await?;
    assert_eq!(owner.newest_token(account, ACTIVATION).await?.secret.len(), 32);
    let insert = "INSERT INTO tokens (account, action, secret) VALUES (1, 'activation', 'known')";
    let error = application.client.batch_execute(insert).await.expect_err("it was not granted");
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    drop(application);
    role.drop().await
}

#[tokio::test]
async fn a_trigger_on_a_table_of_somebody_elses_makes_no_tokens() -> Result<()> {
    let database = Database::migrated()?;
    let owner = Application::connect(&database).await?;
    owner.register("a").await?;
    let role = Role::create(&database, &owner, &["CREATE ON SCHEMA public"]).await?;
    let stranger = role.connect(&database).await?;
    let error = stranger
        .client
        .batch_execute(
            "CREATE TABLE own (id bigint);
            CREATE TRIGGER own AFTER INSERT ON own REFERENCING NEW TABLE
                AS made EXECUTE FUNCTION mailroom.trg_after_accounts_insert()",
        )
        .await
        .expect_err("the function is not everybody's");
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{error}");
    drop(stranger);
    role.drop().await
}

/// Puts functions and operators beside the tables, each of which takes exactly the types that
/// columns and parameters have. That would make it a better match than a built-in one for other
/// types, and it raises an error.
async fn put_impostors(owner: &Application) -> Result<()> {
    let operators = [
        ("=", "token_action", "token_action"),
        ("=", "account_status", "account_status"),
        ("=", "varchar", "varchar"),
        ("=", "varchar", "text"),
        ("=", "text", "varchar"),
        ("=", "bigint", "integer"),
        ("=", "integer", "bigint"),
        ("<>", "token_action", "token_action"),
        ("<=", "bigint", "numeric"),
        ("<=", "numeric", "bigint"),
        (">", "bigint", "numeric"),
        (">=", "numeric", "bigint"),
        (">=", "numeric", "integer"),
        ("-", "bigint", "numeric"),
        ("-", "numeric", "bigint"),
        ("||", "varchar", "bigint"),
        ("||", "text", "bigint"),
    ];
    for (operator, left, right) in operators {
        owner
            .client
            .batch_execute(&format!(
                "CREATE OR REPLACE FUNCTION impostor({left}, {right}) RETURNS boolean
                    LANGUAGE plpgsql
                    AS $$ BEGIN RAISE EXCEPTION 'an impostor was called'; END; $$;
                CREATE OPERATOR public.{operator} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION
                    = impostor)"
            ))
            .await?;
    }
    for function in [
        "format(text, oid, token_action, text)",
        "format(text, regclass, token_action, text)",
        "pg_logical_emit_message(boolean, text, text)",
        "hashtextextended(varchar, bigint)",
        "left(varchar, integer)",
        "octet_length(text)",
        "floor(bigint)",
        "consumed_id(bytea)",
        "status_needed_by(text)",
        "clock_timestamp()",
        "count(bigint)",
        "max(integer)",
        "current_setting(varchar)",
        "pg_try_advisory_xact_lock(integer)",
        "cardinality(uuid[])",
        "cardinality(bigint[])",
        "cardinality(integer[])",
        "cardinality(smallint[])",
        "array_position(bigint[], bigint)",
        "format(text, bigint)",
    ] {
        owner
            .client
            .batch_execute(&format!(
                "CREATE FUNCTION public.{function} RETURNS boolean LANGUAGE plpgsql
                    AS $$ BEGIN RAISE EXCEPTION 'an impostor was called'; END; $$"
            ))
            .await?;
    }
    Ok(())
}

/// Does whatever Mailroom's functions and triggers take part in.
async fn live_a_life(owner: &Application) -> Result<()> {
    let (account, fresh) = (owner.register_and_activate("a").await?, owner.register("b").await?);
    owner.request("a", RECOVERY).await?;
    owner.request("nobody", RECOVERY).await?;
    let token = owner.newest_token(account, RECOVERY).await?;
    assert_eq!(
        owner.redeem(&token.secret, ACTIVATION, None).await?,
        Redemption::refused("unknown")
    );
    assert_eq!(
        owner.redeem(&token.secret, RECOVERY, Some("x")).await?,
        Redemption::refused("wrong_code")
    );
    let code = token.code.as_deref();
    assert_eq!(owner.redeem(&token.secret, RECOVERY, code).await?, Redemption::ok(account));

    let token = owner.newest_token(fresh, ACTIVATION).await?;
    assert_eq!(owner.redeem(&token.secret, ACTIVATION, None).await?, Redemption::ok(fresh));
    owner.set_status(fresh, "suspended").await?;
    owner.set_status(fresh, "active").await?;
    for (column, value) in [("code", "'00000'"), ("action", "'activation'"), ("expires_at", "0")] {
        let update = format!("UPDATE tokens SET {column} = {value}");
        let error = owner.client.batch_execute(&update).await.expect_err("it is immutable");
        assert_eq!(error.as_db_error().context("by the server")?.column(), Some(column));
    }
    Ok(())
}

/// Collects a token that goes out and one that is given up, and does what operators do.
async fn collect_and_operate(database: &Database, owner: &Application) -> Result<()> {
    owner.register("sound").await?;
    // No line of the C collector's form can carry this name.
    let insert = "INSERT INTO accounts (email, login) VALUES ('given-up@example.test', 'given,up')";
    owner.client.batch_execute(insert).await?;
    let mut collector =
        Collector::start(collector::command(database.url())?.args(["--batch-timeout", "0"]))?;
    let lines = collector.lines()?;
    assert!(lines.next_items(1)?.iter().any(|item| item.login == "sound"));
    wait_until(|| collector.log().contains("get no mail"))?;
    let log = collector.stop()?;
    assert!(!log.contains("impostor"), "{log}");
    // The one that is given up is an alarm until it is put back.
    let commands = [
        (&["status"][..], 1),
        (&["prune", "--older-than", "30d"], 0),
        (&["retry", "--all-dead"], 0),
        (&["status", "--json"], 0),
    ];
    for (arguments, code) in commands {
        let command = &mut program::mailroom()?;
        let output =
            command.args(arguments).env("MAILROOM_DATABASE_URL", database.url()).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        // Its progress may be there, too, if the machine is slow.
        let called = errors.contains("impostor");
        assert!(output.status.code() == Some(code) && !called, "{arguments:?}: {errors}");
    }
    owner.client.batch_execute("SELECT * FROM mailroom.deliveries").await?;
    Ok(())
}

#[tokio::test]
async fn functions_and_operators_put_beside_the_tables_are_not_called() -> Result<()> {
    let database = Database::migrated()?;
    let owner = Application::connect(&database).await?;
    put_impostors(&owner).await?;
    live_a_life(&owner).await?;
    collect_and_operate(&database, &owner).await
}

#[tokio::test]
async fn those_that_were_there_before_the_migrations_are_not_bound_by_them() -> Result<()> {
    let database = Database::create()?;
    let mut owner = Application::connect(&database).await?;
    migrate::up(&mut owner.client, &MIGRATIONS[..=0], &mut |_| {}).await?;
    put_impostors(&owner).await?;
    migrate::up(&mut owner.client, MIGRATIONS, &mut |_| {}).await?;
    live_a_life(&owner).await?;
    collect_and_operate(&database, &owner).await
}
