//! The roles that `mailroom migrate roles` makes: each does all of its work, and nothing else.

use anyhow::{Context, Result, ensure};
use mailroom_tests::book;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::program;
use mailroom_tests::rows::{WITHOUT_VERDICT, wait_for};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const ROLES: [&str; 6] = ["collector", "application", "server", "operator", "bounces", "viewer"];

/// The views that a role reads.
fn views(role: &str) -> &'static [&'static str] {
    match role {
        "operator" => &["deliveries", "delivery_attempts", "suppressed_addresses", "waiting"],
        "viewer" => &["delivery_attempts", "suppressed_addresses", "waiting"],
        _ => &[],
    }
}

/// Runs the program, and returns its exit status and what it said.
fn run(url: &str, arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    let mut command = program::mailroom()?;
    let output = command.args(arguments).env("MAILROOM_DATABASE_URL", url).output()?;
    let said = String::from_utf8(output.stdout)?;
    Ok((output.status.code(), said, String::from_utf8(output.stderr)?))
}

/// A database of a server of its own, with the roles and a login `NAME_login` in each.
async fn with_roles(cluster: &Cluster, kind: &[&str]) -> Result<(Database, Client)> {
    let database = Database::create_on(&cluster.url("postgres"))?.migrate_with(kind)?;
    let client = database.connect().await?;
    let (code, said, errors) = run(database.url(), &["migrate", "roles"])?;
    ensure!(code == Some(0), "{said}{errors}");
    for role in ROLES {
        client
            .batch_execute(&format!("CREATE ROLE {role}_login LOGIN IN ROLE mailroom_{role}"))
            .await?;
    }
    Ok((database, client))
}

async fn login(database: &Database, role: &str) -> Result<Client> {
    let url = database.url_of(&format!("{role}_login"));
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A server's roles are those of all its databases.
#[tokio::test]
async fn the_roles_of_another_database_are_shared_only_by_name() -> Result<()> {
    let cluster = Cluster::start()?;
    let (first, _) = with_roles(&cluster, &["--without-accounts"]).await?;
    let second = Database::create_on(&cluster.url("postgres"))?;
    let second = second.migrate_with(&["--without-accounts"])?;
    let (code, _, errors) = run(second.url(), &["migrate", "roles"])?;
    ensure!(code == Some(1) && errors.contains("in another database of this server"), "{errors}");
    let may_enqueue = "SELECT has_function_privilege('application_login', oid, 'EXECUTE')
        FROM pg_proc WHERE proname = 'enqueue' AND pronamespace = 'mailroom'::regnamespace";
    let client = second.connect().await?;
    ensure!(!client.query_one(may_enqueue, &[]).await?.get::<_, bool>(0), "it has the right");
    for (database, prefix) in [(&second, "shop_"), (&second, "mailroom_"), (&first, "mailroom_")] {
        let (code, _, errors) = run(database.url(), &["migrate", "roles", "--prefix", prefix])?;
        ensure!(code == Some(0), "{prefix}: {errors}");
    }
    ensure!(client.query_one(may_enqueue, &[]).await?.get::<_, bool>(0), "it lacks the right");
    Ok(())
}

#[tokio::test]
async fn each_role_does_all_of_its_work() -> Result<()> {
    let cluster = Cluster::start()?;
    let (database, client) = with_roles(&cluster, &[]).await?;
    let application = login(&database, "application").await?;
    let insert = "INSERT INTO accounts (email, login) SELECT n || '@x.test', 'p' || n
        FROM generate_series(1, 5) AS n";
    application.batch_execute(insert).await?;
    for statement in [
        "UPDATE accounts SET login = 'q1' WHERE login = 'p1'",
        "SELECT mailroom.request('p2', 'recover')",
        "SELECT mailroom.enqueue('change_email', 'ada@x.test')",
        "SELECT mailroom.redeem(sha256('x'), 'activation', NULL)",
        "SELECT mailroom.recheck('account')",
    ] {
        application.batch_execute(statement).await.context(statement)?;
    }
    let mut command = collector::command(&database.url_of("collector_login"))?;
    command.args(["--batch-timeout", "0", "--rate", "100/s,1000/month", "--metrics-address", "0"]);
    command.args(["--token-format", "v2", "--log-format", "json"]);
    let mut collector = Collector::start(&mut command)?;
    ensure!(collector.lines()?.next_items(6)?.len() == 6);
    wait_for(&client, WITHOUT_VERDICT, 0_i64).await?;
    let log = collector.stop()?;
    ensure!(!log.contains("permission denied") && !log.contains("outage"), "{log}");
    ensure!(!log.contains("preflight_warning") && !log.contains("prune_failed"), "{log}");
    let operator = database.url_of("operator_login");
    for arguments in [
        &["status"][..],
        &["status", "--runs"],
        &["dead"],
        &["retry", "--all-dead"],
        &["discard", "--all-dead"],
        &["suppress", "add", "gone@x.test"],
        &["prune", "--older-than", "30d"],
    ] {
        let (code, said, errors) = run(&operator, arguments)?;
        ensure!(code == Some(0), "{arguments:?} ends with {code:?}: {said}{errors}");
        ensure!(!errors.contains("permission"), "{arguments:?}: {errors}");
    }
    let server = login(&database, "server").await?;
    for statement in [
        "SELECT mailroom.redeem(sha256('x'), 'activation', NULL)",
        "SELECT mailroom.browser_code('\\x000102030405060708090a0b0c0d0e0f')",
        "SELECT mailroom.renew_link(sha256('x'), 'activate')",
    ] {
        server.batch_execute(statement).await.context(statement)?;
    }
    let viewer = database.url_of("viewer_login");
    for arguments in [&["status"][..], &["status", "--runs"], &["dead"], &["suppress", "list"]] {
        let (code, said, errors) = run(&viewer, arguments)?;
        ensure!(code == Some(0), "{arguments:?} ends with {code:?}: {said}{errors}");
        ensure!(!said.contains("may not read"), "{arguments:?}: {said}");
    }
    let bounces = login(&database, "bounces").await?;
    bounces.batch_execute("SELECT mailroom.suppress('a@x.test', 'bounce', 'smtp', 'gone')").await?;
    Ok(())
}

#[tokio::test]
async fn no_role_does_anything_else() -> Result<()> {
    for kind in [&[][..], &["--without-accounts"]] {
        let cluster = Cluster::start()?;
        let (database, client) = with_roles(&cluster, kind).await?;
        let documented = book::granted_functions()?;
        let functions = "SELECT proname::text, oid::regprocedure::text FROM pg_proc
            WHERE pronamespace = 'mailroom'::regnamespace AND prosecdef";
        let tables = "SELECT oid::regclass::text FROM pg_class
            WHERE relnamespace IN ('mailroom'::regnamespace, 'public'::regnamespace)
                AND relkind IN ('r', 'v', 'p')";
        let functions = client.query(functions, &[]).await?;
        let tables = client.query(tables, &[]).await?;
        ensure!(functions.len() > 30 && tables.len() > 12);
        for role in ROLES {
            let of_role = login(&database, role).await?;
            for row in &functions {
                let (name, signature): (String, String) = (row.get(0), row.get(1));
                let is_allowed = "SELECT has_function_privilege($1, $2, 'EXECUTE')";
                let login = format!("{role}_login");
                let is_allowed: bool =
                    client.query_one(is_allowed, &[&login, &signature]).await?.get(0);
                let is_documented = documented[role].contains(&name);
                // An address is suppressed by a collector only if its operator wants that.
                let is_optional = role == "collector" && name == "suppress";
                ensure!(
                    is_allowed == (is_documented && !is_optional),
                    "{role} may execute {signature}: {is_allowed}"
                );
            }
            for row in &tables {
                let table: String = row.get(0);
                let is_read = views(role).iter().any(|view| table == format!("mailroom.{view}"))
                    || role == "application" && table == "accounts";
                let read = of_role.batch_execute(&format!("SELECT FROM {table} LIMIT 1")).await;
                ensure!(read.is_ok() == is_read, "{role} reads {table}: {read:?}");
                if role == "application" && table == "accounts" {
                    continue;
                }
                let refused = of_role.batch_execute(&format!("DELETE FROM {table}")).await;
                let code = refused.err().and_then(|error| error.code().cloned());
                ensure!(
                    code == Some(SqlState::INSUFFICIENT_PRIVILEGE)
                        || code == Some(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE),
                    "{role} deletes from {table}: {code:?}"
                );
            }
            for statement in [
                "CREATE TABLE mailroom.own (x integer)",
                "CREATE ROLE other",
                "SELECT setval('mailroom.budget_spent', 1)",
                "SELECT last_value FROM mailroom.rate_spent_until",
                "DROP SCHEMA mailroom CASCADE",
                "TRUNCATE mailroom.queue",
                "LOCK TABLE mailroom.rate_lock",
            ] {
                let refused = of_role.batch_execute(statement).await;
                ensure!(refused.is_err(), "{role} may {statement}");
            }
        }
        // Nor does status find a right that no document gives.
        let (code, said, _) = run(database.url(), &["status", "--json"])?;
        ensure!(!said.contains("no document gives"), "{code:?}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_printed_makes_the_same_and_takes_what_is_too_much() -> Result<()> {
    let cluster = Cluster::start()?;
    let (database, client) = with_roles(&cluster, &[]).await?;
    let rights = "SELECT string_agg(format('%s %s', proname, proacl), E'\n' ORDER BY oid)
        FROM pg_proc WHERE pronamespace = 'mailroom'::regnamespace";
    let before: String = client.query_one(rights, &[]).await?.get(0);
    let of_accounts = "SELECT string_agg(format('%s %s %s', relname, relacl, (
            SELECT string_agg(format('%s %s', attname, attacl), ' ' ORDER BY attnum)
            FROM pg_attribute WHERE attrelid = pg_class.oid AND attacl IS NOT NULL
        )), E'\n' ORDER BY oid)
        FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')";
    let accounts_before: String = client.query_one(of_accounts, &[]).await?.get(0);
    client
        .batch_execute(
            "GRANT EXECUTE ON FUNCTION mailroom.redeem TO mailroom_bounces;
            GRANT ALL ON accounts, tokens TO mailroom_bounces, mailroom_application;
            GRANT SELECT (secret) ON tokens TO mailroom_server;
            GRANT ALL ON SEQUENCE accounts_id_seq, tokens_id_seq TO mailroom_operator;
            GRANT CREATE ON SCHEMA mailroom TO mailroom_bounces",
        )
        .await?;
    let (code, printed, _) = run(database.url(), &["migrate", "roles", "--print"])?;
    ensure!(code == Some(0) && printed.starts_with("BEGIN;\n"), "{printed}");
    ensure!(!printed.to_lowercase().contains("password"), "{printed}");
    client.batch_execute(&printed).await?;
    let after: String = client.query_one(rights, &[]).await?.get(0);
    ensure!(before == after, "{before}\n{after}");
    let accounts_after: String = client.query_one(of_accounts, &[]).await?.get(0);
    ensure!(accounts_before == accounts_after, "{accounts_before}\n{accounts_after}");
    let may_create = "SELECT has_schema_privilege('mailroom_bounces', 'mailroom', 'CREATE')";
    ensure!(!client.query_one(may_create, &[]).await?.get::<_, bool>(0));
    // Who replicates reads all tables.
    client.batch_execute("ALTER ROLE mailroom_bounces REPLICATION").await?;
    let (code, _, errors) = run(database.url(), &["migrate", "roles"])?;
    ensure!(code == Some(1) && errors.contains("mailroom_bounces"), "{code:?} {errors}");
    client.batch_execute("ALTER ROLE mailroom_bounces NOREPLICATION").await?;
    // Names of somebody else's are left alone.
    client.batch_execute("CREATE ROLE shop_operator LOGIN").await?;
    let (code, _, errors) = run(database.url(), &["migrate", "roles", "--prefix", "shop_"])?;
    ensure!(code == Some(1) && errors.contains("shop_operator"), "{code:?} {errors}");
    let (code, _, errors) = run(database.url(), &["migrate", "roles", "--prefix", "a; DROP"])?;
    ensure!(code == Some(2) && errors.contains("small letters"), "{code:?} {errors}");
    // Whoever may not create roles is told what helps.
    let (code, _, errors) = run(&database.url_of("bounces_login"), &["migrate", "roles"])?;
    ensure!(code == Some(1) && errors.contains("--print"), "{code:?} {errors}");
    Ok(())
}
