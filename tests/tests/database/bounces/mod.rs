//! `mailroom bounces`: notifications of providers become suppressed addresses,
//! and nothing else does.

mod encodings;
mod mails;
mod webhooks;

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use base64ct::{Base64, Encoding as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use mailroom_tests::collector::Collector;
use mailroom_tests::http;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use sha2::Sha256;
use tempfile::TempDir;
use tokio_postgres::Client;

const KEY: &[u8] = b"0123456789abcdefghijklmn";
const PASSWORD: &str = "a password that nobody guesses";

/// The program, listening.
pub(crate) struct Bounces {
    pub(crate) program: Collector,
    address: String,
    _folder: TempDir,
}

impl Bounces {
    fn listen(database_url: &str) -> Result<Self> {
        Self::listen_for(database_url, "mailroom")
    }

    /// For an installation in another schema.
    fn listen_for(database_url: &str, schema: &str) -> Result<Self> {
        Self::start(database_url, schema, &[])
    }

    /// Where metrics are served, too.
    pub(crate) fn listen_with_metrics(database_url: &str) -> Result<Self> {
        Self::start(database_url, "mailroom", &["--metrics-address", "0"])
    }

    /// The address of the metrics.
    pub(crate) fn metrics_address(&self) -> Result<String> {
        self.program.wait_for_log("metrics are served", 1)?;
        address_in(&self.program.log(), "metrics are served")
    }

    fn start(database_url: &str, schema: &str, arguments: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let files = [
            ("resend", format!("whsec_{}\n", Base64::encode_string(KEY))),
            ("postmark", PASSWORD.to_owned()),
            (
                "bounces.toml",
                "[resend]\nsecret_file = \"resend\"\n[postmark]\nusername = \"postmark\"\n\
                 password_file = \"postmark\"\n"
                    .to_owned(),
            ),
        ];
        for (name, text) in files {
            fs::write(folder.path().join(name), text)?;
        }
        let mut command = program::mailroom()?;
        command
            .args(["bounces", "--listen", "127.0.0.1:0", "--config"])
            .arg(folder.path().join("bounces.toml"))
            .args(arguments);
        command.envs([("MAILROOM_DATABASE_URL", database_url), ("MAILROOM_SCHEMA", schema)]);
        let program = Collector::start(&mut command)?;
        program.wait_for_log("notifications are taken", 1)?;
        let address = address_in(&program.log(), "notifications are taken")?;
        Ok(Self { program, address, _folder: folder })
    }

    /// Sends bytes and returns the answer's status and body. The server may answer and close before
    /// it has them all.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> Result<(u16, String)> {
        let (status, _, body) = http::ask(&self.address, bytes)?;
        Ok((status, body))
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Result<(u16, String)> {
        let mut request =
            format!("POST {path} HTTP/1.1\r\nhost: x.test\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request.push_str("content-type: application/json; charset=utf-8\r\n");
        }
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        self.exchange(format!("{request}\r\n{body}").as_bytes())
    }

    /// As Resend sends it.
    pub(crate) fn resend(&self, body: &str) -> Result<(u16, String)> {
        self.resend_at(body, 0)
    }

    /// So many seconds ago.
    pub(crate) fn resend_at(&self, body: &str, age: u64) -> Result<(u16, String)> {
        let time = (SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() - age).to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(KEY)?;
        mac.update(format!("msg_1.{time}.{body}").as_bytes());
        let signature = format!("v1,{}", Base64::encode_string(&mac.finalize().into_bytes()));
        self.post(
            "/resend",
            &[("svix-id", "msg_1"), ("svix-timestamp", &time), ("svix-signature", &signature)],
            body,
        )
    }

    /// As Postmark sends it.
    fn postmark(&self, body: &str) -> Result<(u16, String)> {
        let credentials = Base64::encode_string(format!("postmark:{PASSWORD}").as_bytes());
        self.post("/postmark", &[("authorization", &format!("Basic {credentials}"))], body)
    }
}

/// The address in the line of a log that has these words.
fn address_in(log: &str, words: &str) -> Result<String> {
    let line = log.lines().find(|line| line.contains(words)).context("a line")?;
    let address = line.split_once("address=").context("an address")?.1;
    Ok(address.split_whitespace().next().context("an address")?.to_owned())
}

/// A role that may do nothing else, and the URL for it.
async fn role(database: &Database, client: &Client) -> Result<String> {
    let role = database.name();
    let create =
        format!("CREATE ROLE {role} LOGIN; GRANT EXECUTE ON FUNCTION mailroom.suppress TO {role}");
    client.batch_execute(&create).await?;
    Ok(database.url_of(role))
}

async fn drop_role(database: &Database, client: &Client) -> Result<()> {
    let role = database.name();
    Ok(client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?)
}

/// Address, reason, provider and detail of what is suppressed.
async fn suppressed(client: &Client) -> Result<Vec<[String; 4]>> {
    let query = "SELECT address, reason, coalesce(provider, ''), coalesce(detail, '') \
                 FROM mailroom.suppressed_addresses ORDER BY 1";
    let rows = client.query(query, &[]).await?;
    Ok(rows.iter().map(|row| [0, 1, 2, 3].map(|index| row.get(index))).collect())
}

pub(crate) fn bounced(kind: &str, to: &str) -> String {
    // As documented, shortened.
    format!(
        r#"{{"type":"email.bounced","created_at":"2026-11-22T23:41:12.126Z","data":{{
        "created_at":"2026-11-22T23:41:11.894719+00:00",
        "email_id":"56761188-7520-42d8-8898-ff6fc54ce618",
        "from":"Acme <onboarding@resend.dev>","to":[{to}],"subject":"Sending this example",
        "bounce":{{"message":
            "The recipient's email address is on the suppression list of ada@x.test.",
        "subType":"Suppressed","type":"{kind}"}}}}}}"#
    )
}
