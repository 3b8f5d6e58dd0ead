//! What is missing is named with its mend: schemas, rights, and circumstances in which tokens would
//! not be sent.

use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::rows::{register, wait_for};
use mailroom_tests::{program, tools};
use tokio_postgres::Client;

/// A server, and a database in it that a role without any privilege owns, whose schema is `mail`.
pub(crate) struct Place {
    _cluster: Cluster,
    database: Database,
    pub(crate) superuser: Client,
}

impl Place {
    pub(crate) async fn new() -> Result<Self> {
        let cluster = Cluster::start()?;
        let database = Database::create_on(&cluster.url("postgres"))?;
        let superuser = database.connect().await?;
        let name = database.name();
        superuser
            .batch_execute(&format!(
                "CREATE ROLE owner LOGIN; GRANT CREATE ON DATABASE {name} TO owner; \
                 CREATE SCHEMA mail AUTHORIZATION owner"
            ))
            .await?;
        Ok(Self { _cluster: cluster, database, superuser })
    }

    pub(crate) fn url(&self, role: &str) -> String {
        self.database.url_of(role)
    }

    /// With the search path in the URL.
    pub(crate) fn in_mail(&self, role: &str) -> String {
        format!("{}?options=-csearch_path%3Dmail", self.url(role))
    }

    pub(crate) async fn migrated() -> Result<Self> {
        let place = Self::new().await?;
        let said = run(&place.in_mail("owner"), &["migrate", "up"])?;
        assert!(said.status.success(), "{}", complaint(&said));
        Ok(place)
    }
}

pub(crate) fn run(url: &str, arguments: &[&str]) -> Result<Output> {
    let mut command = program::mailroom()?;
    command
        .args(arguments)
        .env("MAILROOM_DATABASE_URL", url)
        .output()
        .context("mailroom does not start")
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn eager(url: &str) -> Result<Command> {
    let mut command = collector::command(url)?;
    command.args(["--batch-timeout", "0", "--poll-interval", "1s"]);
    Ok(command)
}

/// The statements of docs/operate/rights.md that give the roles their rights, for another schema
/// than public.
pub(crate) fn documented_grants(schema: &str) -> Result<String> {
    let document = std::fs::read_to_string(tools::workspace().join("docs/operate/rights.md"))?;
    let start =
        document.find("CREATE ROLE collector NOLOGIN;").context("the document has grants")?;
    let end = document[start..].find("```").context("the block ends")?;
    Ok(document[start..start + end].replace("SCHEMA public", &format!("SCHEMA {schema}")))
}

#[tokio::test]
async fn the_documented_grants_are_enough_in_a_schema_of_its_own() -> Result<()> {
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute(&format!("SET search_path = mail; {}", documented_grants("mail")?))
        .await?;
    place
        .superuser
        .batch_execute(
            "CREATE ROLE daemon LOGIN IN ROLE collector; CREATE ROLE site LOGIN IN ROLE application;
            ALTER ROLE site SET search_path = mail",
        )
        .await?;
    let mut collector = Collector::start(&mut eager(&place.in_mail("daemon"))?)?;
    let lines = collector.lines()?;
    let site = place.database.connect_as("site").await?;
    site.batch_execute("INSERT INTO accounts (email, login) VALUES ('a@example.test', 'a')")
        .await?;
    assert_eq!(lines.next_items(1)?[0].login, "a");
    site.batch_execute("SELECT mailroom.request('a', 'activate', cooldown => '0 s')").await?;
    assert_eq!(lines.next_items(1)?[0].login, "a");
    let log = collector.stop()?;
    assert!(!log.contains("WARN"), "{log}");
    Ok(())
}

#[tokio::test]
async fn what_is_missing_is_named_with_role_path_and_mend() -> Result<()> {
    let place = Place::migrated().await?;
    place.superuser.batch_execute("CREATE ROLE daemon LOGIN").await?;
    let grants = "GRANT EXECUTE ON FUNCTION mailroom.claim, mailroom.list_actions, mailroom.peek,
        mailroom.release, mailroom.settle,
        mailroom.sweep TO daemon";
    for (before, url, sentences) in [
        (
            "REVOKE USAGE ON SCHEMA mailroom FROM PUBLIC",
            place.in_mail("daemon"),
            ["search_path = mail", "GRANT USAGE ON SCHEMA mailroom TO \"daemon\""],
        ),
        (
            "GRANT USAGE ON SCHEMA mailroom TO daemon",
            place.url("daemon"),
            [
                "role \"daemon\" with search_path = \"$user\", public",
                "GRANT EXECUTE ON FUNCTION mailroom.claim, mailroom.heartbeat, \
                 mailroom.list_actions, mailroom.peek, mailroom.release, mailroom.settle, \
                 mailroom.sweep TO \"daemon\"",
            ],
        ),
        (
            grants,
            place.in_mail("daemon"),
            ["role \"daemon\"", "GRANT EXECUTE ON FUNCTION mailroom.heartbeat TO \"daemon\""],
        ),
        (
            "DROP FUNCTION mailroom.heartbeat",
            place.in_mail("daemon"),
            [
                "has of what is needed only the functions mailroom.claim",
                "run `mailroom migrate up`",
            ],
        ),
        (
            "DROP SCHEMA mailroom CASCADE",
            place.in_mail("daemon"),
            [
                "no schema of the database has the functions mailroom.claim",
                "run `mailroom migrate up`",
            ],
        ),
    ] {
        place.superuser.batch_execute(before).await?;
        let collector =
            Collector::start(eager(&url)?.args(["--missing-schema", "exit", "--wake", "poll"]))?;
        let (status, log) = collector.wait()?;
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(sentences.iter().all(|sentence| log.contains(sentence)), "{sentences:?} in {log}");
        let said = run(&url, &["status"])?;
        assert_eq!(said.status.code(), Some(3));
        assert!(
            complaint(&said).contains("for the role \"daemon\" with search_path"),
            "{}",
            complaint(&said)
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_cursor_is_told_which_rights_it_lacks() -> Result<()> {
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
    let superuser = database.connect().await?;
    superuser
        .batch_execute("CREATE ROLE daemon LOGIN; GRANT SELECT ON accounts, tokens, jobs TO daemon")
        .await?;
    let url = database.url_of("daemon");
    let mut command = collector::on_base_schema(&url)?;
    let (status, log) = Collector::start(command.args(["--missing-schema", "exit"]))?.wait()?;
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(
        log.contains(
            "the right SELECT, or UPDATE on jobs, is missing on jobs; GRANT SELECT ON jobs TO \
             \"daemon\"; GRANT UPDATE ON jobs TO \"daemon\""
        ),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn a_standby_is_waited_for_even_if_it_has_no_schema_yet() -> Result<()> {
    let cluster = Cluster::builder().file("standby.signal", "").start()?;
    for kind in ["deliveries", "cursor"] {
        let mut command = collector::command(&cluster.url("postgres"))?;
        command.args(["--queue-kind", kind, "--missing-schema", "exit"]);
        let mut collector = Collector::start(&mut command)?;
        collector.wait_for_log("the server is a standby", 1)?;
        assert!(collector.is_running()?);
        collector.stop()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_collector_that_comes_before_schema_and_rights_waits_for_them() -> Result<()> {
    let place = Place::new().await?;
    place
        .superuser
        .batch_execute("CREATE ROLE daemon LOGIN; GRANT USAGE ON SCHEMA mail TO daemon")
        .await?;
    let mut collector = Collector::start(&mut eager(&place.in_mail("daemon"))?)?;
    collector.wait_for_log("for the role \"daemon\"", 1)?;
    assert!(run(&place.in_mail("owner"), &["migrate", "up"])?.status.success());
    sleep(Duration::from_millis(500));
    assert!(collector.is_running()?);
    place
        .superuser
        .batch_execute(
            "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA mailroom TO daemon; SET search_path = mail",
        )
        .await?;
    register(&place.superuser, 1..=3).await?;
    assert_eq!(collector.lines()?.next_items(3)?.len(), 3);
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn row_level_security_that_hides_accounts_is_said_and_does_not_keep_the_database_busy()
-> Result<()> {
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute("SET search_path = mail; ALTER TABLE accounts ENABLE ROW LEVEL SECURITY")
        .await?;
    let said = run(&place.in_mail("owner"), &["status"])?;
    assert!(
        !String::from_utf8(said.stdout)?.contains("row-level security"),
        "without FORCE it binds no owner"
    );
    place.superuser.batch_execute("ALTER TABLE accounts FORCE ROW LEVEL SECURITY").await?;
    register(&place.superuser, 1..=10).await?;
    let mut command = collector::command(&place.in_mail("owner"))?;
    let mut collector = Collector::start(command.args(["--batch-timeout", "0"]))?;
    collector.wait_for_log("row-level security binds the role owner", 1)?;
    collector.wait_for_log("ALTER ROLE owner BYPASSRLS", 1)?;
    let said = run(&place.in_mail("owner"), &["status"])?;
    assert_eq!(said.status.code(), Some(2), "it is an alarm");
    let text = String::from_utf8(said.stdout)?;
    assert!(text.contains("row-level security binds the role owner"), "{text}");
    let json = String::from_utf8(run(&place.in_mail("owner"), &["status", "--json"])?.stdout)?;
    assert!(json.contains("\"warnings\":[\"row-level security"), "{json}");

    // Until the pauses have grown: each token has its own, from a quarter of a second, doubling.
    sleep(Duration::from_secs(20));
    let transactions = async || -> Result<i64> {
        let query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        Ok(place.superuser.query_one(query, &[]).await?.get(0))
    };
    let before = transactions().await?;
    sleep(Duration::from_secs(10));
    let count = transactions().await? - before;
    // Ten tokens that are looked at a few times, each by its own; without their pauses it would be
    // thousands.
    assert!(count < 300, "{count} transactions in ten seconds");
    let looks = "SELECT max(deferrals) FROM mailroom.queue";
    let looks: i16 = place.superuser.query_one(looks, &[]).await?.get(0);
    assert!((5..=10).contains(&looks), "a token was looked at {looks} times");

    place.superuser.batch_execute("ALTER TABLE accounts NO FORCE ROW LEVEL SECURITY").await?;
    assert_eq!(collector.lines()?.next_items(10)?.len(), 10);
    let log = collector.stop()?;
    assert_eq!(log.matches("row-level security").count(), 1, "{log}");
    Ok(())
}

#[tokio::test]
async fn a_collector_without_room_for_the_session_that_settles_settles_all_the_same() -> Result<()>
{
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute("SET search_path = mail; ALTER ROLE owner CONNECTION LIMIT 1")
        .await?;
    register(&place.superuser, 1..=100).await?;
    // That of the migration ends a moment after it.
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'owner'";
    wait_for(&place.superuser, sessions, 0_i64).await?;
    let mut command = collector::command(&place.in_mail("owner"))?;
    let mut collector = Collector::start(command.args([
        "--wake",
        "poll",
        "--retention",
        "off",
        "--batch-timeout",
        "0",
    ]))?;
    assert_eq!(collector.lines()?.next_items(100)?.len(), 100);
    wait_for(
        &place.superuser,
        "SELECT count(*) FROM mailroom.delivery_attempts WHERE outcome = 'sent'",
        100_i64,
    )
    .await?;
    let log = collector.stop()?;
    assert!(!log.contains("too many connections"), "{log}");
    Ok(())
}

#[tokio::test]
async fn accounts_that_come_by_logical_replication_are_said_to_get_no_token() -> Result<()> {
    let cluster = Cluster::builder().setting("wal_level", "logical").start()?;
    let source = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let copy = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let (there, here) = (source.connect().await?, copy.connect().await?);
    let quiet = String::from_utf8(run(copy.url(), &["status"])?.stdout)?;
    assert!(!quiet.contains("replication"), "{quiet}");
    // The slot first: within one server the subscription would wait for itself.
    there.batch_execute("CREATE PUBLICATION people FOR TABLE accounts").await?;
    there.query("SELECT pg_create_logical_replication_slot('people', 'pgoutput')", &[]).await?;
    here.batch_execute(&format!(
        "CREATE SUBSCRIPTION people CONNECTION 'host={} dbname={} user=postgres' PUBLICATION people
            WITH (create_slot = false, copy_data = false)",
        cluster.socket_dir().display(),
        source.name()
    ))
    .await?;
    let arrived = async |people: i64| {
        let arrived = wait_for(&here, "SELECT count(*) FROM accounts", people).await;
        arrived.with_context(|| format!("not replicated: {}", cluster.log()))
    };
    let tokens = "SELECT count(*) FROM mailroom.queue";
    register(&there, 1..=2).await?;
    arrived(2).await?;
    assert_eq!(here.query_one(tokens, &[]).await?.get::<_, i64>(0), 0);
    let text = String::from_utf8(run(copy.url(), &["status"])?.stdout)?;
    let mends = text.split_once("accounts get no token; ").context(text.clone())?.1.trim();
    assert!(
        mends.contains("ALTER TABLE accounts ENABLE REPLICA TRIGGER after_account_replicated"),
        "{text}"
    );

    // As it says.
    here.batch_execute(mends.lines().next().unwrap_or_default()).await?;
    register(&there, 3..=4).await?;
    arrived(4).await?;
    assert_eq!(here.query_one(tokens, &[]).await?.get::<_, i64>(0), 2);
    let text = String::from_utf8(run(copy.url(), &["status"])?.stdout)?;
    assert!(!text.contains("replication"), "{text}");
    here.batch_execute(
        "ALTER SUBSCRIPTION people DISABLE; ALTER SUBSCRIPTION people SET (slot_name = NONE); \
         DROP SUBSCRIPTION people",
    )
    .await?;
    there.query("SELECT pg_drop_replication_slot('people')", &[]).await.ok();
    Ok(())
}

/// What Supabase sets up: whatever is made in a schema belongs to the roles behind its public key,
/// too.
const HOSTED: &str = "
    ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT ALL ON SCHEMAS TO anon, PUBLIC;
    ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT ALL ON TABLES TO anon;
    ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT ALL ON SEQUENCES TO anon, PUBLIC;
    ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT ALL ON FUNCTIONS TO anon";

#[tokio::test]
async fn default_privileges_of_a_hosted_server_open_nothing() -> Result<()> {
    for options in
        [&["migrate", "up", "--drop-secrets"][..], &["migrate", "up", "--without-accounts"]]
    {
        let place = Place::new().await?;
        place.superuser.batch_execute(&format!("CREATE ROLE anon LOGIN; {HOSTED}")).await?;
        let said = run(&place.in_mail("owner"), options)?;
        assert!(
            said.status.success() && !complaint(&said).contains("warning"),
            "{}",
            complaint(&said)
        );
        place
            .superuser
            .batch_execute("GRANT USAGE ON SCHEMA mail TO anon; SET search_path = mail")
            .await?;
        let open = "SELECT coalesce(string_agg(name, ' '), '') FROM (
                SELECT oid::regclass::text FROM pg_class
                WHERE relnamespace IN ('mail'::regnamespace, 'mailroom'::regnamespace)
                    AND relkind IN ('r', 'v', 'S')
                    AND (has_table_privilege('anon', oid,
                        'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
                        OR relkind = 'S' AND has_sequence_privilege('anon', oid,
                        'USAGE, SELECT, UPDATE'))
                UNION ALL
                SELECT oid::regprocedure::text FROM pg_proc
                WHERE pronamespace IN ('mail'::regnamespace, 'mailroom'::regnamespace)
                    AND prosecdef AND has_function_privilege('anon', oid, 'EXECUTE')
                UNION ALL
                SELECT 'CREATE' WHERE has_schema_privilege('anon', 'mailroom', 'CREATE')
            ) AS open (name)";
        assert_eq!(
            place.superuser.query_one(open, &[]).await?.get::<_, &str>(0),
            "",
            "{options:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_collector_that_is_to_suppress_and_may_not_says_what_helps() -> Result<()> {
    const SENTENCE: &str = "MAILROOM_SUPPRESS_UNKNOWN is on, but the role \"daemon\" lacks the \
                            right EXECUTE on the function mailroom.suppress; GRANT EXECUTE ON \
                            FUNCTION mailroom.suppress TO \"daemon\", as its owner";
    let place = Place::migrated().await?;
    let grants = documented_grants("mail")?;
    place.superuser.batch_execute(&format!("SET search_path = mail; {grants}")).await?;
    place.superuser.batch_execute("CREATE ROLE daemon LOGIN IN ROLE collector").await?;
    for (is_on, is_granted) in [(true, false), (false, false), (true, true)] {
        if is_granted {
            let grant = "GRANT EXECUTE ON FUNCTION mailroom.suppress TO daemon";
            place.superuser.batch_execute(grant).await?;
        }
        let mut command = eager(&place.in_mail("daemon"))?;
        command.env("MAILROOM_SUPPRESS_UNKNOWN", if is_on { "on" } else { "off" });
        let collector = Collector::start(&mut command)?;
        collector.wait_for_log("has the queue `deliveries`", 1)?;
        let log = collector.stop()?.replace("\\\"", "\"");
        assert_eq!(log.contains(SENTENCE), is_on && !is_granted, "{log}");
        assert_eq!(log.contains("WARN"), is_on && !is_granted, "{log}");
    }
    Ok(())
}
