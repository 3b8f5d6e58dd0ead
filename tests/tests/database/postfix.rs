//! A mail in a mailbox of Debian's postfix, by the steps of the documents.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, KEY, wait_until};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::machine::skip;
use mailroom_tests::port;
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::rows::{WITHOUT_VERDICT, wait_for};
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
    /// Starts one with a certificate for `localhost`; nothing if it cannot run here, and then the
    /// calling test is skipped.
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
        let port = port::free()?;
        let script = tools::workspace().join("tests/senders/postfix.sh");
        let mut command = Command::new("sh");
        command.arg(script).arg(folder.path()).arg(port.to_string());
        let child = command.stdin(Stdio::piped()).spawn()?;
        let postfix = Self { child, folder, port };
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait_until(listens)
            .with_context(|| format!("postfix does not start: {}", postfix.log()))?;
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

/// The configuration that the documents make, in a folder, but for the mail server.
fn follow_operations(folder: &Path, server: &str) -> Result<PathBuf> {
    let document = fs::read_to_string(tools::workspace().join("docs/guides/send/set-up.md"))?;
    let block = document.split_once("mailroom send --init templates\ncat > send.toml <<'END'\n");
    let shown =
        block.and_then(|(_, rest)| rest.split_once("END\n")).context("the steps are others")?.0;
    let own = shown.replace("server = \"mail.example.org\"", server);
    ensure!(own != shown, "{shown}");
    let file = folder.join("send.toml");
    fs::write(&file, own)?;
    let init =
        program::mailroom()?.args(["send", "--init", "templates"]).current_dir(folder).status()?;
    ensure!(init.success());
    Ok(file)
}

/// A collector that sends by the freshly built program.
fn collect(database: &Database, configuration: &Path) -> Result<Collector> {
    let mut command = collector::command(database.url())?;
    let program = program::path()?;
    let sender = format!("'{program}' send --config '{}'", configuration.display());
    Collector::start(command.args(["--batch-timeout", "0", "--sender", &sender]))
}

#[tokio::test]
async fn a_mail_gets_into_a_mailbox_at_the_first_attempt() -> Result<()> {
    let Some(postfix) = Postfix::start()? else { return Ok(()) };
    let (port, folder) = (postfix.port, postfix.folder.path().display());
    let server = format!(
        "server = \"localhost\"\nport = {port}\ntls = \"starttls\"\nca_file = \"{folder}/ca.pem\""
    );
    let home = tempfile::tempdir()?;
    let configuration = follow_operations(home.path(), &server)?;
    let checked = program::mailroom()?
        .args(["send", "--config"])
        .arg(&configuration)
        .arg("--check")
        .output()?;
    ensure!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.account("ada").at("x.test").insert().await?;
    let collector = collect(&database, &configuration)?;
    let arrived = wait_until(|| postfix.mails().is_ok_and(|mails| !mails.is_empty()));
    arrived.with_context(|| format!("{}\n{}", collector.log(), postfix.log()))?;
    collector.stop()?;

    let query =
        "SELECT state::text, attempts::bigint, encode(consumed_id, 'hex') FROM mailroom.deliveries
        JOIN tokens ON tokens.id = token JOIN mailroom.issued_tokens ON issued_tokens.id = token";
    let row = client.query_one(query, &[]).await?;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1)), ("sent", 1));
    let mails = postfix.mails()?;
    let [mail] = mails.as_slice() else { anyhow::bail!("{} mails came", mails.len()) };
    let id = format!("Message-ID: <{}@example.org>\n", row.get::<_, &str>(2));
    for line in ["Delivered-To: ada@x.test\n", "with ESMTPS", &id] {
        ensure!(mail.contains(line), "{line} is not in\n{mail}");
    }
    let text = mail.replace("=\n", "").replace("=3D", "=");
    let (_, link) =
        text.split_once("https://example.org/activate?token=").context("there is no link")?;
    let token = link.split(['&', '\r', '\n']).next().context("there is no token")?;
    let mut verify = program::mailroom()?;
    verify.args(["verify", "--action", "activate", "-"]).env("MAILROOM_SECRET_KEY", KEY);
    let mut verifying = verify.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    std::io::Write::write_all(
        &mut verifying.stdin.take().context("it is a pipe")?,
        token.as_bytes(),
    )?;
    ensure!(verifying.wait()?.success(), "the link in the mailbox is not genuine");
    Ok(())
}

#[tokio::test]
async fn a_mail_that_bounces_after_it_was_accepted_suppresses_its_recipient_alone() -> Result<()> {
    let Some(postfix) = Postfix::start()? else { return Ok(()) };
    let folder = postfix.folder.path();
    let path = |name: &str| folder.join(name).display().to_string();
    fs::write(path("secret"), "a secret of at least thirty-two bytes\n")?;
    let return_path = format!(
        "return_path = \"bounces@bounces.test\"\nreturn_path_secret_file = \"{}\"\n",
        path("secret")
    );
    let (port, authority) = (postfix.port, path("ca.pem"));
    let server = format!(
        "[smtp]\nserver = \"localhost\"\nport = {port}\ntls = \"starttls\"\nca_file = \
         \"{authority}\"\n"
    );
    let configuration = Configuration::new(&format!("{server}{return_path}"))?;
    fs::write(path("bounces.toml"), format!("[mail]\n{return_path}"))?;
    // Postfix runs the script as nobody, who may not use the socket of other servers.
    let cluster = Cluster::builder().tcp().start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let url = format!(
        "postgresql://postgres@127.0.0.1:{}/{}?sslmode=disable",
        cluster.port(),
        database.name()
    );
    let command = format!(
        "#!/bin/sh\nMAILROOM_DATABASE_URL='{url}' exec '{}' bounces --config '{}' --mail\n",
        program::mailroom()?.get_program().display(),
        path("bounces.toml")
    );
    fs::write(path("bounce"), command)?;
    fs::set_permissions(path("bounce"), Permissions::from_mode(0o755))?;

    let client = database.connect().await?;
    let accounts =
        client.accounts(["gone", "ada"]).emails(["Gone@x.test", "ada@x.test"]).insert().await?;
    let collector = collect(&database, &configuration.file())?;
    let suppressed = "SELECT count(*) FROM mailroom.suppressed_addresses";
    let arrived = wait_for(&client, suppressed, 1_i64).await;
    arrived.with_context(|| format!("{}\n{}", collector.log(), postfix.log()))?;
    let query = "SELECT address, reason, provider, detail FROM mailroom.suppressed_addresses";
    let row = client.query_one(query, &[]).await?;
    let found: [&str; 4] = [0, 1, 2, 3].map(|column| row.get(column));
    assert_eq!(found[..3], ["gone@x.test", "bounce", "mail"]);
    ensure!(found[3].starts_with("5.1.1: ") && !found[3].contains("x.test"), "{}", found[3]);

    client.token().insert_for_each(&accounts).await?;
    wait_for(&client, WITHOUT_VERDICT, 0_i64).await?;
    collector.stop()?;
    let query = "SELECT login || ' ' || state::text FROM mailroom.deliveries JOIN tokens
        ON tokens.id = token
        JOIN accounts ON accounts.id = account ORDER BY token";
    let states: Vec<String> =
        client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect();
    assert_eq!(states, ["gone sent", "ada sent", "gone dead", "ada sent"]);
    ensure!(
        postfix.log().contains("status=bounced") && postfix.log().contains("delivered to command")
    );
    Ok(())
}
