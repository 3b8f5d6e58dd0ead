//! The throwaway servers that all other tests stand on.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{wait_long_until, wait_until};
use mailroom_tests::memory;
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::program;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

#[tokio::test]
async fn a_database_is_empty_and_gone_afterwards() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    let tables = client.query_one("SELECT count(*) FROM pg_stat_user_tables", &[]).await?;
    assert_eq!(tables.get::<_, i64>(0), 0);

    let name = database.name().to_owned();
    drop(database);
    let other = Database::create()?;
    let other = other.connect().await?;
    let left = other.query("SELECT FROM pg_database WHERE datname = $1", &[&name]).await?;
    assert!(left.is_empty());
    Ok(())
}

#[tokio::test]
async fn the_server_keeps_what_was_committed_over_both_kinds_of_stop() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?;
    database.connect().await?.batch_execute("CREATE TABLE kept (way text)").await?;
    for how in [Shutdown::Fast, Shutdown::Immediate] {
        let client = database.connect().await?;
        client.execute("INSERT INTO kept VALUES ($1)", &[&how.to_string()]).await?;
        cluster.stop(how)?;
        assert!(database.connect().await.is_err(), "the server still answers");
        assert!(cluster.process_id().is_err());
        cluster.start_again()?;
    }
    let kept = database.connect().await?.query_one("SELECT count(*) FROM kept", &[]).await?;
    assert_eq!(kept.get::<_, i64>(0), 2);

    cluster.stop(Shutdown::Fast)?;
    let folder = cluster.socket_dir().to_owned();
    drop(cluster);
    assert!(!folder.exists(), "a stopped server leaves its data");
    Ok(())
}

#[tokio::test]
async fn two_servers_run_side_by_side() -> Result<()> {
    let (first, second) = (Cluster::start()?, Cluster::builder().tcp().start()?);
    let by_tcp = format!("postgresql://postgres@127.0.0.1:{}/postgres", second.port());
    let mut numbers = Vec::new();
    for url in [first.url("postgres"), second.url("postgres"), by_tcp] {
        let database = Database::create_on(&url)?;
        let client = database.connect().await?;
        let row = client
            .query_one("SELECT system_identifier::text FROM pg_control_system()", &[])
            .await?;
        numbers.push(row.get::<_, String>(0));
    }
    assert_ne!(numbers[0], numbers[1]);
    assert_eq!(numbers[1], numbers[2]);
    Ok(())
}

#[tokio::test]
async fn settings_files_and_access_rules_reach_the_server() -> Result<()> {
    let cluster = Cluster::builder()
        .setting("cluster_name", "it's set")
        .setting("max_connections", "17")
        .hba("local all postgres trust\nlocal all all reject")
        .file("note.txt", "read me")
        .start()?;
    let database = Database::create_on(&cluster.url("postgres"))?;
    let client = database.connect().await?;
    let query = "SELECT current_setting('cluster_name'), current_setting('max_connections'), \
                 pg_read_file('note.txt')";
    let row = client.query_one(query, &[]).await?;
    let values: [String; 3] = [row.get(0), row.get(1), row.get(2)];
    assert_eq!(values, ["it's set", "17", "read me"]);

    client.batch_execute("CREATE ROLE stranger LOGIN").await?;
    let refused =
        Database::create_on(&cluster.url("postgres").replace("//postgres@", "//stranger@"))
            .unwrap_err();
    assert!(format!("{refused:#}").contains("pg_hba.conf rejects"), "{refused:#}");
    Ok(())
}

#[test]
fn a_server_that_cannot_start_says_why_and_leaves_nothing() {
    let refused =
        Cluster::builder().setting("data_directory", "/nowhere/mailroom").start().unwrap_err();
    assert!(format!("{refused:#}").contains("/nowhere/mailroom"), "{refused:#}");
    let folders = created_folders(process::id());
    let failed = |folder: &PathBuf| {
        // The folder of the data itself may be among them.
        ["data/postgresql.conf", "postgresql.conf"].iter().any(|name| {
            let settings = fs::read_to_string(folder.join(name));
            settings.is_ok_and(|settings| settings.contains("/nowhere/mailroom"))
        })
    };
    assert!(!folders.iter().any(failed), "{folders:?}");
}

#[test]
fn a_dropped_server_leaves_no_process_and_no_folder() -> Result<()> {
    let cluster = Cluster::start()?;
    let (process, folder) = (cluster.process_id()?, cluster.socket_dir().to_owned());
    let data = fs::canonicalize(cluster.data_dir())?;
    assert!(is_running(process) && folder.exists());
    drop(cluster);
    assert!(!is_running(process) && !folder.exists() && !data.exists());
    Ok(())
}

#[test]
fn a_killed_process_leaves_nothing() -> Result<()> {
    leaves_nothing(Some(Signal::KILL))
}

#[test]
fn a_terminated_process_leaves_nothing() -> Result<()> {
    // Not SIGINT: a shell that starts this in the background lets its children ignore that.
    leaves_nothing(Some(Signal::TERM))
}

#[test]
fn a_process_that_ends_by_itself_leaves_nothing() -> Result<()> {
    leaves_nothing(None)
}

#[test]
fn a_process_killed_while_it_makes_a_server_leaves_nothing() -> Result<()> {
    let mut child = two_servers()?;
    let unfinished =
        || created_folders(child.id()).iter().any(|folder| folder.join("data/base").is_dir());
    wait_until(unfinished).context("no server is being made")?;
    child.kill()?;
    child.wait()?;
    wait_until(|| created_folders(child.id()).is_empty()).context("its folder stays")
}

#[test]
fn chaos_ends_with_whoever_started_it_and_leaves_nothing() -> Result<()> {
    end_chaos(|chaos| {
        drop(chaos.stdin.take());
        Ok(())
    })
}

#[test]
fn chaos_ends_when_its_terminal_hangs_up_and_leaves_nothing() -> Result<()> {
    end_chaos(|chaos| Ok(kill_process(pid(chaos.id())?, Signal::HUP)?))
}

fn end_chaos(end: impl FnOnce(&mut Child) -> Result<()>) -> Result<()> {
    const SENDER: &str = "relay";
    let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
    command.args(["600", "1", "--until-input-ends"]).env_remove("MAILROOM_TEST_DATABASE_URL");
    // Built here, or the wait below would be one for that.
    command.env("MAILROOM_TEST_PROGRAM", program::mailroom()?.get_program());
    let mut chaos = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    // It makes a database, too.
    wait_long_until(|| {
        let below = descendants(chaos.id());
        below.iter().filter(|(_, name)| name == "mailroom").count() == 3
            && below.iter().any(|(_, name)| name == SENDER)
    })
    .context("three collectors and a sender do not run")?;
    let below = descendants(chaos.id());
    end(&mut chaos)?;
    ensure!(!chaos.wait()?.success());
    wait_until(|| {
        !below.iter().any(|(process, _)| is_running(*process))
            && created_folders(chaos.id()).is_empty()
    })
    .context("servers, collectors, senders or folders stay")
}

#[test]
fn the_program_runs_without_the_settings_of_the_tests() -> Result<()> {
    let command = program::mailroom()?;
    let removed =
        |name: &str| command.get_envs().any(|(key, value)| key == name && value.is_none());
    for (name, _) in env::vars() {
        assert_eq!(
            removed(&name),
            name.starts_with("MAILROOM_") || name.starts_with("PG"),
            "{name}"
        );
    }
    assert!(Path::new(command.get_program()).is_file());
    Ok(())
}

/// Ends a process that runs two servers, by a signal or by letting it end,
/// and looks for what it leaves.
fn leaves_nothing(signal: Option<Signal>) -> Result<()> {
    let mut child = two_servers()?;
    let lines = BufReader::new(child.stdout.take().context("the output is piped")?).lines();
    let folders = lines.take(2).map(|line| Ok(PathBuf::from(line?))).collect::<Result<Vec<_>>>()?;
    ensure!(folders.len() == 2, "the child ended early");
    let mut processes = Vec::new();
    for folder in &folders {
        let written = fs::read_to_string(folder.join("data/postmaster.pid"))?;
        let process =
            written.lines().next().context("postmaster.pid begins with a process id")?.parse()?;
        ensure!(is_running(process));
        processes.push(process);
    }
    if let Some(signal) = signal {
        kill_process(pid(child.id())?, signal)?;
        ensure!(!child.wait()?.success());
    } else {
        drop(child.stdin.take());
        ensure!(child.wait()?.success());
    }
    wait_until(|| {
        !processes.iter().any(|process| is_running(*process))
            && created_folders(child.id()).is_empty()
    })
    .context("servers or folders stay")?;
    ensure!(folders.iter().all(|folder| !folder.exists()));
    Ok(())
}

/// A process that starts two servers and waits for a line.
fn two_servers() -> Result<Child> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_two-servers"));
    command.env_remove("MAILROOM_TEST_DATABASE_URL").stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command.spawn()?)
}

fn pid(process: u32) -> Result<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw).context("a process has a positive id")
}

/// A process that has ended and that nobody has waited for does not count.
fn is_running(process: u32) -> bool {
    // Not by `ps`, which small machines lack. The state stands behind the program's name,
    // which may hold anything.
    if let Ok(state) = fs::read_to_string(format!("/proc/{process}/stat")) {
        return state.rsplit(')').next().is_some_and(|state| !state.trim_start().starts_with('Z'));
    }
    !Path::new("/proc/self/stat").exists()
        && pid(process).is_ok_and(|pid| test_kill_process(pid).is_ok())
}

/// The processes that a process has started, and those that they have, with their programs' names.
fn descendants(process: u32) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").expect("processes are listed").flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    // NUMBER (NAME) STATE PARENT …
    let all: Vec<(u32, String, u32)> = stats
        .filter_map(|stat| {
            let (number, rest) = stat.split_once(" (")?;
            let (name, rest) = rest.rsplit_once(") ")?;
            let parent = rest.split(' ').nth(1)?.parse().ok()?;
            Some((number.parse().ok()?, name.to_owned(), parent))
        })
        .collect();
    let (mut found, mut parents) = (Vec::new(), vec![process]);
    while let Some(parent) = parents.pop() {
        for (number, name, _) in all.iter().filter(|(_, _, of)| *of == parent) {
            found.push((*number, name.clone()));
            parents.push(*number);
        }
    }
    found
}

/// The folders that a process has made for its servers.
fn created_folders(process: u32) -> Vec<PathBuf> {
    let prefix = format!("mailroom-{process}-");
    let mut parents = vec![env::temp_dir(), PathBuf::from("/tmp")];
    // However little room there is by now.
    parents.extend(memory::folder_with(0).map(Path::to_owned));
    let entries = parents
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("the temporary folder is readable"));
    let paths =
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    paths.map(|entry| entry.path()).collect()
}
