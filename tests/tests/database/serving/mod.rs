//! `mailroom serve`: whoever has a token with the right to it calls a function by HTTP, and nobody
//! else calls anything.

mod calls;
mod outages;
mod refusals;
mod rights;
mod waking;

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::collector::{Collector, wait_until};
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::http;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio_postgres::Client;

/// A token that may call everything.
const ALL: &str = "mrst_of-all";

/// What docs/operate/rights.md grants an application without accounts.
const FUNCTIONS: &str = "mailroom.enqueue, mailroom.redeem, mailroom.browser_code, \
     mailroom.cancel, mailroom.cancel_subject, mailroom.recheck, mailroom.renew_link";

/// A table of the file of tokens.
fn table(token: &str, name: &str, settings: &str) -> String {
    let hash = hexadecimal(&Sha256::digest(token.as_bytes()));
    format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n{settings}\n")
}

fn table_of_all() -> String {
    let rights = "rights = [\"enqueue\", \"request\", \"redeem\", \"browser_code\", \"cancel\", \
                  \"cancel_subject\", \"recheck\", \"renew_link\", \"wake\"]\nrate = \"off\"";
    table(ALL, "all", rights)
}

/// The program, listening.
struct Serve {
    program: Collector,
    address: String,
    tokens: PathBuf,
    _folder: TempDir,
}

#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    head: String,
    body: Value,
}

impl Answer {
    fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl Serve {
    /// With the token [`ALL`].
    fn start(database_url: &str) -> Result<Self> {
        Self::start_with(database_url, &table_of_all(), &[])
    }

    fn start_with(database_url: &str, tokens: &str, arguments: &[&str]) -> Result<Self> {
        Self::start_exporting(database_url, tokens, arguments, "")
    }

    /// One that exports spans.
    fn start_exporting(
        database_url: &str,
        tokens: &str,
        arguments: &[&str],
        endpoint: &str,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("serve.toml");
        fs::write(&path, tokens)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let mut command = program::mailroom()?;
        command.args(["serve", "--listen", "127.0.0.1:0", "--tokens"]).arg(&path).args(arguments);
        command.env("MAILROOM_DATABASE_URL", database_url);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        let program = Collector::start(&mut command)?;
        program.wait_for_log("are served", 1)?;
        let log = program.log();
        let address = log.split_once("address=").context("an address")?.1;
        let address = address.split_whitespace().next().context("an address")?.to_owned();
        Ok(Self { program, address, tokens: path, _folder: folder })
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(100)))?;
        Ok(stream)
    }

    /// Sends bytes and returns all that comes until the connection ends. The server may answer and
    /// close before it has them all.
    fn exchange(&self, bytes: &[u8]) -> Result<String> {
        http::exchange(&self.address, bytes)
    }

    /// What comes for a request, as an answer.
    fn ask(&self, request: &str) -> Result<Answer> {
        answer(&self.exchange(request.as_bytes())?)
    }

    /// The same again where the database is away, as callers do: a busy machine takes longer to
    /// connect than the server waits.
    fn ask_again(&self, request: &str) -> Result<Answer> {
        let mut answer = self.ask(request);
        let is_away = |answer: &Answer| (answer.status, answer.code()) == (503, "MAILROOM_AWAY");
        wait_until(|| {
            let again = answer.as_ref().is_ok_and(is_away);
            if again {
                answer = self.ask(request);
            }
            !again
        })?;
        answer
    }

    fn post_as(&self, token: &str, path: &str, body: &str) -> Result<Answer> {
        self.ask_again(&request(token, path, body))
    }

    fn post(&self, path: &str, body: &str) -> Result<Answer> {
        self.post_as(ALL, path, body)
    }

    /// The first answer, also that the database is away.
    fn post_once(&self, path: &str, body: &str) -> Result<Answer> {
        self.ask(&request(ALL, path, body))
    }

    /// The same with the header `traceparent`.
    fn post_traced(&self, path: &str, body: &str, traceparent: Option<&str>) -> Result<Answer> {
        let header = traceparent.map(|trace| format!("traceparent: {trace}\r\n"));
        let request = request(ALL, path, body);
        let header = format!("{}content-type:", header.unwrap_or_default());
        self.ask_again(&request.replacen("content-type:", &header, 1))
    }

    /// Uses a link.
    fn redeem(&self, action: &str, secret: &[u8], code: Option<&str>) -> Result<Answer> {
        self.post("/v1/redeem", &link(action, secret, code))
    }

    /// The first answer to the use of a link without a code, also that the database is away.
    fn redeem_once(&self, action: &str, secret: &[u8]) -> Result<Answer> {
        self.post_once("/v1/redeem", &link(action, secret, None))
    }
}

/// The body of a request that uses a link.
fn link(action: &str, secret: &[u8], code: Option<&str>) -> String {
    let secret = hexadecimal(secret);
    serde_json::json!({ "action": action, "secret": secret, "code": code }).to_string()
}

fn request(token: &str, path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x.test\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// All that comes until the connection ends.
fn rest(stream: &mut TcpStream) -> Result<String> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    Ok(String::from_utf8(answer)?)
}

fn answer(text: &str) -> Result<Answer> {
    let (status, head, body) = http::parts(text)?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_str(body)? };
    Ok(Answer { status, head: head.to_owned(), body })
}

/// A role that may call these functions and nothing else, and the URL for it.
async fn role(database: &Database, client: &Client, functions: &str) -> Result<String> {
    let role = database.name();
    let create =
        format!("CREATE ROLE {role} LOGIN; GRANT EXECUTE ON FUNCTION {functions} TO {role}");
    client.batch_execute(&create).await?;
    Ok(database.url_of(role))
}

async fn drop_role(database: &Database, client: &Client) -> Result<()> {
    let role = database.name();
    Ok(client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?)
}

/// The secret and the code of a token that waits.
async fn queued(client: &Client, token: &str) -> Result<(Vec<u8>, Option<String>)> {
    let token: i64 = token.parse()?;
    let query = "SELECT secret, code FROM mailroom.queue WHERE token = $1";
    let row = client.query_one(query, &[&token]).await?;
    Ok((row.get(0), row.get(1)))
}

/// Makes a link of an action without eligibility for a subject; returns its token's id.
fn enqueue(serve: &Serve, action: &str, subject: &str) -> Result<String> {
    let body = serde_json::json!({
        "action": action,
        "recipient_email": "ada@x.test",
        "subject_id": subject,
    });
    let answer = serve.post("/v1/enqueue", &body.to_string())?;
    let token = answer.body["token"].as_str();
    Ok(token.with_context(|| format!("no token: {answer:?}"))?.to_owned())
}
