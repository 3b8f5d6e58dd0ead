//! The steps that use the packed npm package as its users do, none of them from the source tree.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::Cluster;
use mailroom_tests::program;
use mailroom_tests::tools::{target_folder, workspace};

use crate::extent::Extent;
use crate::rust::{self, BUILD};
use crate::step::Steps;
use crate::{node, npm, tools};

/// The step that packs the package, and installs what its consumers are tested with.
pub(crate) const PACK: &str = "pack the npm package";

/// Where npm installs what the tests need, each by its own lock file.
const TOOLS: [&str; 4] =
    [npm::TESTS, "verifier-wasm/npm/test/jest", "verifier-wasm/npm/test/handlers", "web-demo"];

pub(crate) fn pack(steps: &mut Steps) {
    steps.add(PACK, &[], || {
        for folder in TOOLS {
            node::install(folder)?;
        }
        npm::tarball().map(drop)
    });
}

/// A step that runs `main.mjs` of a folder of the package's tests.
pub(crate) fn suite(steps: &mut Steps, extent: Extent, title: &str, name: &'static str) {
    suite_after(steps, &[PACK], extent, title, name);
}

/// The same for one that needs more than the package.
pub(crate) fn suite_after(
    steps: &mut Steps,
    needs: &[&'static str],
    extent: Extent,
    title: &str,
    name: &'static str,
) {
    pack(steps);
    steps.add(title, needs, move || {
        given_package(extent, &format!("{}/{name}/main.mjs", npm::TESTS), name)
    });
}

/// The sources of the package, and what was packed: its contents, its types, its command line.
pub(crate) fn package(steps: &mut Steps, extent: Extent) {
    biome(steps, "formatting and lints of the npm package", npm::PACKAGE);
    let program = format!("{}/unit/main.mjs", npm::TESTS);
    steps.add("npm package", &[PACK], move || given_package(extent, &program, "npm"));
}

/// The topic of stores that needs a server of each version.
const POSTGRES: &str = "postgres";

/// How many topics of stores follow each other in a step.
const TOPICS_A_STEP: usize = 2;

/// The stores of used tokens, each against the real thing: servers of Redis and PostgreSQL of their
/// own, workerd, Deno; `DynamoDB` by an emulator.
pub(crate) fn stores(steps: &mut Steps, extent: Extent) -> Result<()> {
    let folder = format!("{}/stores", npm::TESTS);
    let program = format!("{folder}/main.mjs");
    pack(steps);
    let mut topics = topics(&workspace().join(folder))?;
    topics.retain(|topic| topic != POSTGRES);
    for topics in topics.chunks(TOPICS_A_STEP) {
        let (program, topics) = (program.clone(), topics.to_vec());
        let title = format!("stores of used tokens, {}", topics.join(", "));
        steps.add(&title, &[PACK], move || {
            let mut command = given_package(extent, &program, &format!("stores-{}", topics[0]))?;
            command.args(&topics);
            Ok(command)
        });
    }
    for wanted in extent.versions {
        let program = program.clone();
        steps.add(&format!("store of used tokens in {wanted}"), &[PACK], move || {
            let server = Cluster::builder().version(wanted.clone()).start()?;
            let folder = format!("stores-postgres-{}", server.installation().major);
            let mut command = given_package(extent, &program, &folder)?;
            command.arg(POSTGRES);
            lead(&mut command, server.socket_dir(), &server);
            Ok((command, Some(server)))
        });
    }
    Ok(())
}

/// What the files of a folder test whose names end in `.topic.mjs`, in alphabetical order.
fn topics(folder: &Path) -> Result<Vec<String>> {
    let files = tools::entries(folder)?;
    let names = files.iter().filter_map(|file| file.file_name()?.to_str());
    Ok(names.filter_map(|name| name.strip_suffix(".topic.mjs")).map(str::to_owned).collect())
}

/// The adapters for clients of the database, on a server of their own that has the schema.
pub(crate) fn adapters(steps: &mut Steps, extent: Extent) {
    pack(steps);
    rust::build(steps);
    for wanted in extent.versions {
        steps.add(&format!("clients of the database, {wanted}"), &[BUILD, PACK], move || {
            let server = Cluster::builder().version(wanted.clone()).tcp().start()?;
            let migrated = program::isolated(&tools::built("mailroom")?)
                .args(["migrate", "up", "--without-accounts"])
                .env("MAILROOM_DATABASE_URL", server.url("postgres"))
                .output()
                .context("cannot run mailroom")?;
            let complaint = String::from_utf8_lossy(&migrated.stderr);
            ensure!(migrated.status.success(), "cannot migrate: {complaint}");
            let program = format!("{}/database/main.mjs", npm::TESTS);
            let folder = format!("database-{}", server.installation().major);
            let mut command = given_package(extent, &program, &folder)?;
            command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
            lead(&mut command, "127.0.0.1", &server);
            Ok((command, Some(server)))
        });
    }
}

/// Leads a client to a server by libpq's variables.
pub(crate) fn lead(command: &mut Command, host: impl AsRef<OsStr>, server: &Cluster) {
    command.env("PGHOST", host).env("PGPORT", server.port().to_string());
    command.env("PGUSER", "postgres").env("PGDATABASE", "postgres");
}

/// The pages of the book's start, followed by a reader who has a server of PostgreSQL and the built
/// program on the `PATH`.
pub(crate) fn start(steps: &mut Steps, extent: Extent) {
    pack(steps);
    rust::build(steps);
    let Some(wanted) = extent.versions.first().cloned() else { return };
    steps.add("pages of the start, followed", &[BUILD, PACK], move || {
        let server = Cluster::builder().version(wanted).start()?;
        let program = format!("{}/start/main.mjs", npm::TESTS);
        let mut command = given_package(extent, &program, "start")?;
        let mailroom = tools::built("mailroom")?;
        let folder = mailroom.parent().context("it lies in a folder")?;
        let path = env::var_os("PATH").unwrap_or_default();
        let path = [folder.to_owned()].into_iter().chain(env::split_paths(&path));
        command.env("PATH", env::join_paths(path)?);
        lead(&mut command, server.socket_dir(), &server);
        Ok((command, Some(server)))
    });
}

/// `mailroom dev` in Chromium, with an application of the package, on an empty database.
pub(crate) fn inbox(steps: &mut Steps, extent: Extent) {
    pack(steps);
    rust::build(steps);
    steps.add("inbox of developers, in Chromium", &[BUILD, PACK], move || {
        let server = Cluster::builder().tcp().start()?;
        let url = format!("postgresql://postgres@127.0.0.1:{}/postgres", server.port());
        let program = format!("{}/dev/main.mjs", npm::TESTS);
        let mut command = given_package(extent, &program, "dev")?;
        command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
        command.env("MAILROOM_DATABASE_URL", url);
        Ok((command, Some(server)))
    });
}

/// `mailroom ui` in Chromium, on an empty database.
pub(crate) fn screen(steps: &mut Steps) {
    // What drives the browser is installed with the package's tests.
    pack(steps);
    rust::build(steps);
    steps.add("pages of operators, in Chromium", &[BUILD, PACK], move || {
        let server = Cluster::builder().tcp().start()?;
        let url = format!("postgresql://postgres@127.0.0.1:{}/postgres", server.port());
        let mut command = node::command()?;
        command.arg(workspace().join(format!("{}/ui/main.mjs", npm::TESTS)));
        command.arg(target_folder().join("consumers").join("ui"));
        command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
        command.env("MAILROOM_DATABASE_URL", url);
        Ok((command, Some(server)))
    });
}

/// Templates that other programs have made, and what programs of mail support of the shipped ones.
pub(crate) fn mails(steps: &mut Steps) {
    rust::build(steps);
    steps.add("mails of other programs and in others", &[BUILD], move || {
        let folder = format!("{}/mails", npm::TESTS);
        node::install(&folder)?;
        let mut command = node::command()?;
        command.arg(workspace().join(folder).join("main.mjs"));
        command.arg(target_folder().join("consumers").join("mails"));
        command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
        Ok(command)
    });
}

/// The formatting and lints of a folder of JavaScript, by what npm installed into it.
pub(crate) fn biome(steps: &mut Steps, title: &str, folder: &str) {
    let folder = workspace().join(folder);
    pack(steps);
    steps.add(title, &[PACK], move || {
        let mut command = Command::new(folder.join("node_modules/.bin/biome"));
        command.args(["ci", "--colors=off", "."]).current_dir(folder);
        Ok(command)
    });
}

/// A program that is given the packed package and a folder to install it into.
fn given_package(extent: Extent, program: &str, folder: &str) -> Result<Command> {
    let mut command = node::command()?;
    command.arg(workspace().join(program));
    command.arg(npm::tarball()?).arg(target_folder().join("consumers").join(folder));
    extent.tell(&mut command);
    Ok(command)
}
