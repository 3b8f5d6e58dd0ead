//! `mailroom ui`: an operator's pages, which only the reader of the terminal opens, and which
//! change nothing.

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::Collector;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::http;
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::program;

/// What it needs, as docs/operate/screen.md grants it.
const RIGHTS: &str = "
    GRANT EXECUTE ON FUNCTION mailroom.status, mailroom.list_runs, mailroom.trace TO ROLE;
    GRANT SELECT ON mailroom.delivery_attempts, mailroom.suppressed_addresses, mailroom.waiting
        TO ROLE";

/// The program, listening.
struct Ui {
    program: Collector,
    address: String,
    /// What signs in, once.
    password: String,
}

impl Ui {
    fn start(database_url: &str) -> Result<Self> {
        let mut command = program::mailroom()?;
        command.args(["ui", "--port", "0"]).env("MAILROOM_DATABASE_URL", database_url);
        let mut program = Collector::start(&mut command)?;
        let lines = program.lines()?;
        loop {
            let line = lines.next_line().with_context(|| program.log())?;
            if let Some(link) = line.trim_end().strip_prefix("http://") {
                let (address, password) = link.split_once("/#").context("a password")?;
                let (address, password) = (address.to_owned(), password.to_owned());
                return Ok(Self { program, address, password });
            }
        }
    }

    /// Sends a request with this head and body.
    fn ask(
        &self,
        first: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<(u16, String, String)> {
        let mut request = format!("{first} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request.extend(["host: ", &self.address, "\r\n"]);
        }
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request.push_str("content-type: application/x-www-form-urlencoded\r\n");
        }
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        let request = format!("{request}content-length: {}\r\n\r\n{body}", body.len());
        http::ask(&self.address, request.as_bytes())
    }

    /// Signs in; returns the cookie.
    fn sign_in(&self) -> Result<String> {
        let (status, head, body) =
            self.ask("POST /sign-in", &[], &format!("password={}", self.password))?;
        ensure!(status == 303, "{status} {body}");
        let line = head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        Ok(line.context("no cookie")?.split(';').next().unwrap_or_default().to_owned())
    }

    fn page(&self, cookie: &str, path: &str) -> Result<(u16, String)> {
        let (status, _, body) = self.ask(&format!("GET {path}"), &[("cookie", cookie)], "")?;
        Ok((status, body))
    }

    fn find(&self, cookie: &str, about: &str) -> Result<(u16, String, String)> {
        self.ask("POST /find", &[("cookie", cookie)], &format!("about={about}"))
    }
}

#[tokio::test]
async fn whoever_does_not_read_the_terminal_sees_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.batch_execute("SELECT mailroom.suppress('mallory@x.test', 'manual')").await?;
    let ui = Ui::start(database.url())?;
    ensure!(ui.address.starts_with("127.0.0.1:"), "{}", ui.address);
    let own = format!("http://{}", ui.address);
    let port = ui.address.trim_start_matches("127.0.0.1:");
    let other = format!("mailroom_ui_{port}={}", "0".repeat(64));
    let password = format!("password={}", ui.password);
    let form = ("content-type", "text/plain");
    let long = format!("password={}", "a".repeat(5_000));
    for (first, headers, body, expected) in [
        ("GET /", &[][..], "", 401),
        ("GET /", &[("cookie", other.as_str())], "", 401),
        ("GET /suppressed", &[("origin", own.as_str())], "", 401),
        ("HEAD /dead", &[], "", 401),
        ("GET /tokens/1", &[], "", 401),
        ("POST /find", &[], "about=mallory%40x.test", 401),
        ("GET /", &[("host", "evil.test")], "", 403),
        ("POST /sign-in", &[("origin", "http://evil.test")], &password, 403),
        ("POST /sign-in", &[("origin", "null")], &password, 403),
        ("POST /sign-in", &[("host", "evil.test")], &password, 403),
        (
            "POST /sign-in",
            &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
            &password,
            403,
        ),
        ("POST /sign-in", &[], "password=", 403),
        ("POST /sign-in", &[], "", 403),
        ("POST /sign-in", &[], "%ff=%00&password=%zz", 403),
        ("POST /sign-in", &[form], &password, 415),
        ("POST /sign-in", &[], &long, 413),
        ("GET /sign-in", &[], "", 404),
        ("GET /../../etc/passwd", &[], "", 404),
        ("DELETE /", &[], "", 405),
        ("POST /", &[], "", 405),
        ("GET /ui.css", &[], "", 200),
    ] {
        let (status, head, answer) = ui.ask(first, headers, body)?;
        assert_eq!(status, expected, "{first} {headers:?}: {answer}");
        assert!(head.contains("frame-ancestors 'none'"), "{head}");
        assert!(head.contains("cache-control: no-store"), "{head}");
        assert!(!answer.contains("mallory") && !answer.contains(&ui.password), "{answer}");
    }
    // None of these has used the password up.
    let cookie = ui.sign_in()?;
    let (status, body) = ui.page(&cookie, "/suppressed")?;
    assert_eq!((status, body.contains("mallory@x.test")), (200, true), "{body}");
    let (status, _, body) = ui.ask("POST /sign-in", &[], &password)?;
    assert_eq!((status, body.contains("A browser has used the password.")), (403, true), "{body}");
    assert_eq!(ui.page(&cookie[..cookie.len() - 1], "/")?.0, 401);
    assert!(!ui.program.log().contains(&ui.password));
    ui.program.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_token_and_an_address_have_their_story_and_what_is_no_id_is_refused() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.mail("invite").to("Ada@X.test").enqueue().await?;
    let ui = Ui::start(database.url())?;
    let cookie = ui.sign_in()?;
    let (status, head, _) = ui.find(&cookie, "1")?;
    assert_eq!((status, head.contains("location: /tokens/1\r\n")), (303, true), "{head}");
    let (_, by_id) = ui.page(&cookie, "/tokens/1")?;
    assert!(by_id.contains("<strong>enqueued</strong>"), "{by_id}");
    let (status, _, by_address) = ui.find(&cookie, "ada%40x.TEST")?;
    assert_eq!((status, by_address.contains("<strong>enqueued</strong>")), (200, true));
    let (_, _, unknown) = ui.find(&cookie, "nobody%40x.test")?;
    assert!(unknown.contains("Nothing is known of it"), "{unknown}");
    for none in
        ["", "ada", "-1", "0", "1%27--", "%00", "a%00%40x.test", "07", "999999999999999999999"]
    {
        assert_eq!(ui.find(&cookie, none)?.0, 400, "{none}");
    }
    let script = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%40x.test";
    let (_, _, body) = ui.find(&cookie, script)?;
    assert!(!body.contains("<script>alert"), "{body}");
    Ok(())
}

#[tokio::test]
async fn a_role_with_these_rights_sees_every_page_and_others_read_what_helps() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let role = database.name();
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await?;
    client.batch_execute(&format!("GRANT EXECUTE ON FUNCTION mailroom.status TO {role}")).await?;
    let url = database.url_of(role);
    let ui = Ui::start(&url)?;
    let cookie = ui.sign_in()?;
    let (status, body) = ui.page(&cookie, "/")?;
    assert_eq!(
        (status, body.contains("may not read the view mailroom.delivery_attempts")),
        (200, true)
    );
    for (path, grant) in [
        ("/dead", "GRANT SELECT ON mailroom.waiting"),
        ("/suppressed", "GRANT SELECT ON mailroom.suppressed_addresses"),
        ("/runs", "GRANT EXECUTE ON FUNCTION mailroom.list_runs"),
        ("/tokens/1", "GRANT EXECUTE ON FUNCTION mailroom.trace"),
    ] {
        let (status, body) = ui.page(&cookie, path)?;
        assert_eq!((status, body.contains(grant)), (503, true), "{path}: {body}");
    }
    client.batch_execute(&RIGHTS.replace("ROLE", role)).await?;
    for path in ["/", "/dead", "/suppressed", "/runs", "/tokens/1"] {
        let (status, body) = ui.page(&cookie, path)?;
        assert_eq!(status, 200, "{path}: {body}");
    }
    ui.program.stop()?;
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    Ok(())
}

#[tokio::test]
async fn the_newest_rows_are_shown_and_what_a_collector_wrote_of_itself_in_any_form() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "SELECT mailroom.suppress('a' || n || '@x.test', 'manual')
                FROM generate_series(1, 200) AS n;
            UPDATE mailroom.suppressions SET suppressed_at = now() - interval '1 day';
            SELECT mailroom.suppress('newest@x.test', 'manual')",
        )
        .await?;
    let ui = Ui::start(database.url())?;
    let cookie = ui.sign_in()?;
    let (_, body) = ui.page(&cookie, "/suppressed")?;
    assert!(body.contains("newest@x.test") && body.contains("the newest 200"), "{body}");
    assert_eq!(body.matches("@x.test").count(), 200);
    let run = "INSERT INTO mailroom.collectors (collector_id, name, started_at, seen_at, state,
            state_since, counts)
        VALUES ((random() * 1e9)::bigint, 'odd', now(), now(), 'ready', now(), $1::text::json)";
    for (counts, expected) in [("[1]", 200), ("\"x\"", 200), ("{\"a\":1e999}", 503)] {
        client.execute(run, &[&counts]).await?;
        assert_eq!(ui.page(&cookie, "/runs")?.0, expected, "{counts}");
        let mut command = program::mailroom()?;
        command.args(["status", "--runs"]).env("MAILROOM_DATABASE_URL", database.url());
        let said = command.output()?;
        let code = if expected == 200 { 0 } else { 3 };
        assert_eq!(said.status.code(), Some(code), "{}", String::from_utf8_lossy(&said.stderr));
    }
    assert_eq!(ui.page(&cookie, "/")?.0, 200);
    Ok(())
}

#[tokio::test]
async fn a_run_is_shown_as_one_that_goes_on_rests_has_ended_or_was_killed() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "INSERT INTO mailroom.collectors (collector_id, name, started_at, seen_at, state,
                state_since, state_reason)
            SELECT row_number() OVER (), state, now() - interval '3 hours', now() - since,
                state, now(), reason
            FROM (VALUES
                ('ready', interval '0', NULL),
                ('resting', interval '2 hours', NULL),
                ('ended', interval '2 hours', 'SIGTERM'),
                ('open', interval '2 hours', NULL)
            ) AS runs (state, since, reason)",
        )
        .await?;
    let ui = Ui::start(database.url())?;
    let cookie = ui.sign_in()?;
    let (_, page) = ui.page(&cookie, "/runs")?;
    for (name, expected) in [
        ("ready", "runs</td>"),
        ("resting", "rests, last seen"),
        ("ended", "ended"),
        ("open", "killed or lost, last seen"),
    ] {
        let row = page.split("<tr>").find(|row| row.contains(&format!("<td>{name}</td>")));
        assert!(row.context("a row")?.contains(expected), "{name}: {page}");
    }
    Ok(())
}

#[tokio::test]
async fn no_page_changes_anything_whatever_a_function_does() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "CREATE OR REPLACE FUNCTION mailroom.trace(tokens bigint[] DEFAULT NULL,
                    address text DEFAULT NULL)
                RETURNS TABLE (token bigint, happened_at timestamptz, event text, attempt integer,
                    action text, collector text, provider text, message_id text, detail text)
                LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
                    SELECT mailroom.suppress('eve@x.test', 'manual');
                    SELECT 1::bigint, now(), 'x', 1, 'x', 'x', 'x', 'x', 'x'
                $$",
        )
        .await?;
    let ui = Ui::start(database.url())?;
    let cookie = ui.sign_in()?;
    let (status, body) = ui.page(&cookie, "/tokens/1")?;
    assert_eq!((status, body.contains("read-only transaction")), (503, true), "{body}");
    let query = "SELECT count(*) FROM mailroom.suppressed_addresses";
    assert_eq!(client.query_one(query, &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}

#[tokio::test]
async fn a_database_that_is_away_is_said_and_looked_for_again() -> Result<()> {
    let mut server = Cluster::builder().start()?;
    let database = Database::create_on(&server.url("postgres"))?.migrate()?;
    let ui = Ui::start(database.url())?;
    let cookie = ui.sign_in()?;
    assert_eq!(ui.page(&cookie, "/")?.0, 200);
    server.stop(Shutdown::Fast)?;
    for path in ["/", "/dead", "/tokens/1"] {
        let (status, body) = ui.page(&cookie, path)?;
        assert_eq!((status, body.contains("The database cannot be read")), (503, true), "{body}");
    }
    server.start_again()?;
    assert_eq!(ui.page(&cookie, "/")?.0, 200);
    ui.program.stop()?;
    Ok(())
}
