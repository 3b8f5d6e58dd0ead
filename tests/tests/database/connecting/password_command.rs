//! Passwords that a command prints, for each connection.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_connect::{ConnectionSettings, PasswordCommand, connect};
use mailroom_tests::collector::{Collector, wait_until};
use mailroom_tests::program;
use mailroom_tests::tools::workspace;

use super::encryption::{PASSWORD, TLS_SERVER};
use super::environment::TestEnvironment;
use super::{OPTIONS, served, value};

/// Who connects by the password that a command prints, or why nobody does.
async fn who(command: &str) -> Result<String, String> {
    let string = TLS_SERVER.string("scram");
    let mut settings = ConnectionSettings::resolve(&string, &TestEnvironment::new()).unwrap();
    settings.ask_for_password(PasswordCommand::parse(command).unwrap()).unwrap();
    let session = connect(&settings, &OPTIONS).await;
    let client = served(session.map_err(|error| format!("{error} {error:?}"))?);
    Ok(value(&client, "SELECT current_user::text").await)
}

/// A command that prints a file.
fn printing(path: &std::path::Path) -> String {
    format!("cat '{}'", path.display())
}

#[tokio::test]
async fn each_connection_gets_the_password_that_is_printed_then() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    for text in [PASSWORD.to_owned(), format!("{PASSWORD}\n"), format!("{PASSWORD}\r\n")] {
        fs::write(&file, text).unwrap();
        assert_eq!(who(&printing(&file)).await.unwrap(), "scram");
    }
    fs::write(&file, "an old one\n").unwrap();
    let error = who(&printing(&file)).await.unwrap_err();
    assert!(error.contains("the password came from its command"), "{error}");
    assert!(!error.contains("an old one"), "{error}");
    fs::write(&file, PASSWORD).unwrap();
    assert_eq!(who(&printing(&file)).await.unwrap(), "scram");
}

#[tokio::test]
async fn a_command_that_gives_no_password_is_an_error_without_what_it_said() {
    for (command, expected) in [
        ("false", "failed: exit status: 1"),
        ("sh -c 'echo hunter2; exit 3'", "failed: exit status: 3"),
        ("sh -c 'echo hunter2 >&2; kill -9 $$'", "failed: signal: 9"),
        ("true", "printed nothing"),
        ("echo", "printed nothing"),
        ("printf 'hunter2\\nhunter2\\n'", "more than one line"),
        ("printf 'hunter2\\0hunter2'", "more than one line"),
        ("head -c 8193 /dev/zero", "printed more than 8192 bytes"),
        ("cat /dev/zero", "printed more than 8192 bytes"),
        ("/nowhere/hunter3 hunter2", "cannot be started"),
    ] {
        let error = who(command).await.unwrap_err();
        assert!(error.contains(expected), "{command}: {error}");
        assert!(!error.contains("hunter"), "{error}");
    }
}

#[tokio::test]
async fn what_it_writes_to_standard_error_is_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, PASSWORD).unwrap();
    let command = format!("sh -c 'yes hunter2 | head -n 100000 >&2; cat {}'", file.display());
    assert_eq!(who(&command).await.unwrap(), "scram");
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let alive = folder.path().join("alive");
    // Its child holds the pipe and shows that it lives.
    let show = format!("while :; do date +%s%N > {}; sleep 0.1; done", alive.display());
    let command = format!("sh -c '({show}) & sleep 1000'");
    let began = Instant::now();
    let error = who(&command).await.unwrap_err();
    assert!(error.contains("did not end within 10 s"), "{error}");
    assert!(began.elapsed() >= Duration::from_secs(10));
    assert!(alive.exists(), "its child never ran");
    // It may have been killed between making the file anew and writing it.
    wait_until(|| {
        let before = fs::read(&alive).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        fs::read(&alive).unwrap() == before
    })
    .unwrap();
}

#[tokio::test]
async fn it_runs_in_an_environment_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (file, seen) = (folder.path().join("password"), folder.path().join("seen"));
    fs::write(&file, PASSWORD).unwrap();
    let command = format!("sh -c 'env > {}; cat {}'", seen.display(), file.display());
    assert_eq!(who(&command).await.unwrap(), "scram");
    let seen = fs::read_to_string(seen).unwrap();
    let names: Vec<_> = seen.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // The shell adds those of its own.
    let allowed = ["PATH", "HOME", "LANG", "CREDENTIALS_DIRECTORY", "PWD", "OLDPWD", "SHLVL", "_"];
    assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
}

#[test]
fn programs_take_it_from_the_environment_and_refuse_a_second_password() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("password");
    fs::write(&file, PASSWORD)?;
    let url = format!("postgresql://scram@127.0.0.1:{}/postgres", TLS_SERVER.cluster.port());
    let run = |variables: &[(&str, &str)]| -> Result<(Option<i32>, String)> {
        let mut command = program::mailroom()?;
        command.arg("status").env("MAILROOM_DATABASE_URL", &url).envs(variables.iter().copied());
        let output = command.output()?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?))
    };
    let name = "MAILROOM_DATABASE_PASSWORD_COMMAND";
    // The command of the document, with another file.
    let document = fs::read_to_string(workspace().join("docs/operate/database-password.md"))?;
    let documented = "cat /run/mailroom/password";
    assert!(document.contains(&format!("{name}='{documented}'")));
    let command = documented.replace("/run/mailroom/password", &file.display().to_string());
    let (_, said) = run(&[(name, &command)])?;
    assert!(said.contains("migrate up"), "it has connected: {said}");
    let (code, said) = run(&[(name, &command), ("PGPASSWORD", "hunter2")])?;
    assert!(code == Some(3) && said.contains("leave one of them out"), "{said}");
    let (code, said) = run(&[(name, "cat 'hunter2")])?;
    assert!(code == Some(3) && said.contains("a quote does not end"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    Ok(())
}

#[test]
fn a_collector_goes_on_when_the_command_works_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("password");
    let url = format!("postgresql://scram@127.0.0.1:{}/postgres", TLS_SERVER.cluster.port());
    let mut command = mailroom_tests::collector::command(&url)?;
    command.env("MAILROOM_DATABASE_PASSWORD_COMMAND", printing(&file));
    let collector = Collector::start(&mut command)?;
    collector.wait_for_log("the command for the password failed", 1)?;
    fs::write(&file, PASSWORD)?;
    // There is no schema, which it finds out when it is connected.
    collector.wait_for_log("migrate up", 1)?;
    let log = collector.stop()?;
    assert!(!log.contains(PASSWORD), "{log}");
    Ok(())
}
