//! `mailroom init` and `mailroom check`: from the first files to a collector that can send.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use mailroom_tests::collector::KEY;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;

/// Exit status, standard output and standard error.
fn run(command: &mut Command) -> Result<(Option<i32>, String, String)> {
    let output = command.output()?;
    let text = |bytes| String::from_utf8(bytes);
    Ok((output.status.code(), text(output.stdout)?, text(output.stderr)?))
}

fn check(url: &str, arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    let mut command = program::mailroom()?;
    command.arg("check").args(arguments).env("MAILROOM_DATABASE_URL", url);
    run(command.env("MAILROOM_SECRET_KEY", KEY))
}

/// The line of what was looked at.
fn line<'a>(printed: &'a str, name: &str) -> Result<&'a str> {
    let mut lines = printed.lines();
    lines.find(|line| line.split(' ').nth(1) == Some(name)).with_context(|| printed.to_owned())
}

fn init(folder: &Path) -> Result<(Option<i32>, String, String)> {
    run(program::mailroom()?.args(["init", "made"]).current_dir(folder))
}

#[test]
fn the_first_files_are_written_once_and_nothing_is_overwritten() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let made = folder.path().join("made");
    let (status, printed, errors) = init(folder.path())?;
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{printed}");
    let key = fs::read_to_string(made.join("key"))?;
    assert!(key.trim().len() == 64 && !printed.contains(key.trim()), "{printed}");
    for (name, mode) in [("key", 0o600), ("state", 0o700)] {
        let found = fs::metadata(made.join(name))?.permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name}: {found:o}");
    }
    let ignored = fs::read_to_string(made.join(".gitignore"))?;
    for secret in ["/key", "/smtp-password", "/state/"] {
        assert!(ignored.lines().any(|line| line == secret), "{secret}: {ignored}");
    }
    for name in ["send.toml", "templates/en/activate.mail", "mailroom.conf", "database.js"] {
        assert!(made.join(name).is_file(), "{name}");
    }
    let unit = fs::read_to_string(made.join("mailroom.conf"))?;
    assert!(!unit.contains("=FOLDER") && unit.contains("LoadCredential=key:/"), "{unit}");
    let commands = printed.lines().filter(|line| line.starts_with("  mailroom ")).count();
    assert_eq!(commands, 4, "{printed}");

    fs::write(made.join("send.toml"), "mine")?;
    fs::remove_file(made.join("database.js"))?;
    let (status, printed, _) = init(folder.path())?;
    assert_eq!(status, Some(0));
    let kept = printed.lines().filter(|line| line.ends_with("was left as it is")).count();
    assert_eq!(kept, 6, "{printed}");
    assert_eq!(fs::read_to_string(made.join("key"))?, key);
    assert_eq!(fs::read_to_string(made.join("send.toml"))?, "mine");
    assert!(made.join("database.js").is_file());
    Ok(())
}

#[test]
fn the_configuration_that_is_written_makes_every_mail() -> Result<()> {
    let folder = tempfile::tempdir()?;
    init(folder.path())?;
    let made = folder.path().join("made");
    fs::write(made.join("smtp-password"), "hunter2")?;
    let mut command = program::mailroom()?;
    command.args(["send", "--preview", "preview", "--config"]).arg(made.join("send.toml"));
    let (status, printed, errors) = run(command.current_dir(&folder))?;
    assert_eq!(status, Some(0), "{printed}{errors}");
    Ok(())
}

#[test]
fn a_folder_that_a_unit_could_not_name_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (status, _, errors) =
        run(program::mailroom()?.args(["init", "two words"]).current_dir(&folder))?;
    assert_eq!(status, Some(2), "{errors}");
    assert!(!folder.path().join("two words").exists());
    Ok(())
}

#[tokio::test]
async fn all_is_well_in_a_new_installation_for_a_role_with_the_documented_rights() -> Result<()> {
    let database = Database::create()?.migrate_with(&["--without-accounts"])?;
    let client = database.connect().await?;
    let role = database.name();
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA mailroom TO {role}; \
             GRANT EXECUTE ON FUNCTION mailroom.settle, mailroom.release, mailroom.claim, \
             mailroom.heartbeat, mailroom.sweep, mailroom.peek, mailroom.list_actions, \
             mailroom.prune_attempts, mailroom.prune_dead_letters, mailroom.prune_tokens TO {role}"
        ))
        .await?;
    let (status, printed, errors) = check(&database.url_of(role), &[])?;
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    for name in ["database", "pooler", "clock", "schema", "rights", "name", "format", "key"] {
        let line = line(&printed, name)?;
        assert!(line.starts_with('✓'), "{line}");
    }
    assert!(line(&printed, "sender")?.starts_with('-'), "{printed}");
    assert_eq!(status, Some(0), "{printed}{errors}");
    assert!(!printed.contains(KEY), "{printed}");
    Ok(())
}

#[tokio::test]
async fn what_keeps_mails_from_going_out_is_said_with_what_helps() -> Result<()> {
    let database = Database::create()?;
    let (status, printed, _) = check(database.url(), &[])?;
    assert_eq!(status, Some(2), "{printed}");
    assert!(line(&printed, "schema")?.contains("`mailroom migrate up`"), "{printed}");

    let database = database.migrate_with(&["--without-accounts"])?;
    let folder = tempfile::tempdir()?;
    init(folder.path())?;
    let made = folder.path().join("made");
    fs::write(made.join("smtp-password"), "hunter2")?;
    fs::set_permissions(made.join("key"), fs::Permissions::from_mode(0o644))?;
    fs::remove_file(made.join("templates/en/invite.mail"))?;
    let config = made.join("send.toml");
    // Nobody listens there.
    let changed =
        fs::read_to_string(&config)?.replace("mail.example.org\"", "127.0.0.1\"\nport = 1");
    fs::write(&config, changed)?;
    let mut command = program::mailroom()?;
    command.args(["check", "--key-file"]).arg(made.join("key")).arg("--config").arg(&config);
    command.env("MAILROOM_DATABASE_URL", database.url()).env("MAILROOM_TOKEN_FORMAT", "v1");
    let (status, printed, _) = run(&mut command)?;
    assert_eq!(status, Some(2), "{printed}");
    for (name, begins, says) in [
        ("format", '!', "v1 does not sign change_email, invite, sign_in, notice"),
        ("key", '!', "chmod o= "),
        ("templates", '!', "invite"),
        ("sender", '✗', "no connection"),
    ] {
        let line = line(&printed, name)?;
        assert!(line.starts_with(begins) && line.contains(says), "{line}");
    }
    Ok(())
}

/// Otherwise the collector says so, after everything was found well.
#[tokio::test]
async fn a_collector_that_would_be_refused_as_that_of_another_installation_is_found() -> Result<()>
{
    let database = Database::migrated()?;
    let mut bind = program::mailroom()?;
    bind.args(["migrate", "bind", "--name", "shop"]).env("MAILROOM_DATABASE_URL", database.url());
    assert_eq!(run(&mut bind)?.0, Some(0));
    let check = |name: Option<&str>| {
        let mut command = program::mailroom()?;
        command.arg("check").env("MAILROOM_DATABASE_URL", database.url());
        command.envs(name.map(|name| ("MAILROOM_INSTALLATION", name)));
        run(command.env("MAILROOM_SECRET_KEY", KEY))
    };
    for name in [None, Some("staging")] {
        let (status, printed, _) = check(name)?;
        let found = line(&printed, "name")?;
        assert!(found.starts_with('✗') && found.contains("MAILROOM_INSTALLATION=shop"), "{found}");
        assert_eq!(status, Some(2), "{printed}");
    }
    let (status, printed, _) = check(Some("shop"))?;
    assert!(line(&printed, "name")?.starts_with('✓'), "{printed}");
    assert_eq!(status, Some(1), "for the format alone: {printed}");

    let client = database.connect().await?;
    let copied = "UPDATE mailroom.installation SET system_identifier = system_identifier + 1";
    client.batch_execute(copied).await?;
    let (_, printed, _) = check(Some("shop"))?;
    assert!(line(&printed, "name")?.contains("belongs to another PostgreSQL cluster"), "{printed}");
    let came: i64 = client.query_one("SELECT count(*) FROM mailroom.collectors", &[]).await?.get(0);
    assert_eq!(came, 0, "what is looked at is undone");
    Ok(())
}

#[tokio::test]
async fn a_mail_that_lacks_what_its_action_has_is_found() -> Result<()> {
    let database = Database::create()?.migrate_with(&["--without-accounts"])?;
    let client = database.connect().await?;
    let insert = "INSERT INTO mailroom.actions (number, name, path, code_digits) VALUES
        (100, 'vote', '/vote', 6), (101, 'digest', NULL, 0)";
    client.batch_execute(insert).await?;
    let folder = tempfile::tempdir()?;
    init(folder.path())?;
    let made = folder.path().join("made");
    fs::write(made.join("smtp-password"), "hunter2")?;
    for (name, text) in [
        ("vote.subject.txt", "Vote"),
        ("vote.txt", "{{ link }}"),
        ("vote.html", "<a href=\"{{ link }}\">Vote</a>"),
        ("digest.subject.txt", "News"),
        ("digest.txt", "News"),
        ("digest.html", "<p>News"),
    ] {
        fs::write(made.join("templates/en").join(name), text)?;
    }
    let config = made.join("send.toml");
    let config = config.to_str().context("the path is UTF-8")?;
    let (status, printed, _) = check(database.url(), &["--config", config])?;
    assert_eq!(status, Some(2), "{printed}");
    let said = "the mail en/vote does not show {{ code }} in its text and {{ code }} in its HTML";
    let mut lines = printed.lines();
    assert!(lines.any(|line| line.starts_with('✗') && line.ends_with(said)), "{printed}");
    assert!(!printed.contains("digest"), "a mail without a link may have none: {printed}");
    Ok(())
}

#[test]
fn a_database_that_is_away_and_a_wrong_call_end_with_3() -> Result<()> {
    let (status, printed, _) = check("postgresql://postgres@127.0.0.1:1/nothing", &[])?;
    assert_eq!(status, Some(3), "{printed}");
    assert!(line(&printed, "database")?.starts_with('✗'), "{printed}");
    for (url, arguments) in [("postgresql://x:y:z@", &[][..]), ("", &[]), ("", &["--nothing"])] {
        assert_eq!(check(url, arguments)?.0, Some(3), "{url} {arguments:?}");
    }
    Ok(())
}
