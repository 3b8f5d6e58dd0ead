//! A mail in a mailbox of Debian's postfix, by the steps of OPERATIONS.md.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, KEY, wait_until};
use mailroom_tests::machine::skip;
use mailroom_tests::postgres::Database;
use mailroom_tests::sending::Configuration;
use mailroom_tests::{program, tools};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::geteuid;
use tempfile::TempDir;

/// An instance of postfix, which ends when this is dropped.
struct Postfix {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl Postfix {
    /// Starts one with a certificate for `localhost`; nothing if it cannot run here, and then the calling test is skipped.
    fn start() -> Result<Option<Self>> {
        if !geteuid().is_root() || !Path::new("/usr/sbin/postfix").exists() {
            skip("postfix is run by root alone, or there is none; install postfix");
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate =
            CertificateParams::new(vec!["localhost".to_owned()])?.signed_by(&key, &authority)?;
        fs::write(folder.path().join("ca.pem"), authority.pem())?;
        fs::write(folder.path().join("certificate.pem"), certificate.pem())?;
        fs::write(folder.path().join("key.pem"), key.serialize_pem())?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let script = tools::workspace().join("tests/senders/postfix.sh");
        let mut command = Command::new("sh");
        command.arg(script).arg(folder.path()).arg(port.to_string());
        let child = command.stdin(Stdio::piped()).spawn()?;
        let postfix = Self { child, folder, port };
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait_until(listens).with_context(|| format!("postfix does not start: {}", postfix.log()))?;
        Ok(Some(postfix))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The mails in the mailbox.
    fn mails(&self) -> Result<Vec<String>> {
        let Ok(files) = fs::read_dir(self.folder.path().join("mail/inbox/new")) else {
            return Ok(Vec::new());
        };
        files.map(|file| Ok(fs::read_to_string(file?.path())?)).collect()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

#[tokio::test]
async fn a_mail_gets_into_a_mailbox_at_the_first_attempt() -> Result<()> {
    let Some(postfix) = Postfix::start()? else { return Ok(()) };
    let (port, folder) = (postfix.port, postfix.folder.path().display());
    let server = format!("[smtp]\nserver = \"localhost\"\nport = {port}\nca_file = \"{folder}/ca.pem\"");
    let configuration = Configuration::new(&server)?;
    let checked =
        program::mailroom()?.args(["send", "--config"]).arg(configuration.file()).arg("--check").output()?;
    ensure!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.batch_execute("INSERT INTO accounts (email, login) VALUES ('ada@x.test', 'ada')").await?;
    let mut command = collector::command(database.url())?;
    let program = command.get_program().to_string_lossy().into_owned();
    let sender = format!("'{program}' send --config '{}'", configuration.file().display());
    let collector = Collector::start(command.args(["--batch-timeout", "0", "--sender", &sender]))?;
    let arrived = wait_until(|| postfix.mails().is_ok_and(|mails| !mails.is_empty()));
    arrived.with_context(|| format!("{}\n{}", collector.log(), postfix.log()))?;
    collector.stop()?;

    let query = "SELECT state::text, attempts::bigint, encode(consumed_id, 'hex') FROM mailroom.deliveries
        JOIN tokens ON tokens.id = token JOIN mailroom.issued_tokens ON issued_tokens.id = token";
    let row = client.query_one(query, &[]).await?;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1)), ("sent", 1));
    let mails = postfix.mails()?;
    let [mail] = mails.as_slice() else { anyhow::bail!("{} mails came", mails.len()) };
    let id = format!("Message-ID: <{}@x.test>\n", row.get::<_, &str>(2));
    for line in ["Delivered-To: ada@x.test\n", "with ESMTPS", &id] {
        ensure!(mail.contains(line), "{line} is not in\n{mail}");
    }
    let text = mail.replace("=\n", "").replace("=3D", "=");
    let (_, link) = text.split_once("https://example.test/activate?token=").context("there is no link")?;
    let token = link.split_whitespace().next().context("there is no token")?;
    let mut verify = program::mailroom()?;
    verify.args(["verify", "--action", "activate", "-"]).env("MAILROOM_SECRET_KEY", KEY);
    let mut verifying = verify.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    std::io::Write::write_all(&mut verifying.stdin.take().context("it is a pipe")?, token.as_bytes())?;
    ensure!(verifying.wait()?.success(), "the link in the mailbox is not genuine");
    Ok(())
}
