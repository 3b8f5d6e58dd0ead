//! The demonstration of `web-demo`: `cargo xtask demo` builds it, then becomes it; and its tests.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Cluster, Wanted};
use mailroom_tests::program::FEATURES;
use mailroom_tests::tools::{target_folder, workspace};

use crate::consumers::{self, PACK};
use crate::execute::watch;
use crate::extent::Extent;
use crate::rust::{self, BUILD};
use crate::step::Steps;
use crate::{node, npm, tools};

const SOURCE: &str = "web-demo";
const PROGRAMS: &str = "build the programs of the demonstration";
const SITE: &str = "pages of the web demonstration";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// In the terminal: 25 accounts and 10 recoveries;
    /// exit 0 only if every token came and was verified twice
    #[arg(long)]
    once: bool,

    /// The PostgreSQL to run: a version such as 15 or 18, or the folder of its programs
    #[arg(long, value_name = "VERSION", value_parser = Wanted::parse)]
    postgres: Option<Wanted>,
}

pub(crate) fn run(options: Options) -> Result<ExitCode> {
    let (mut steps, is_whole) = (Steps::new(), !options.once);
    steps.add("build mailroom", &[], move || {
        let mut cargo = tools::cargo(["build", "--package", "mailroom", "--bin", "mailroom"]);
        cargo.args(FEATURES);
        if is_whole {
            cargo.args(["--package", "mailroom-inbox", "--bin", "mailroom-inbox"]);
        }
        Ok(cargo)
    });
    steps.add(if is_whole { SITE } else { PROGRAMS }, &[], move || build(is_whole));
    let is_provided =
        options.postgres.is_none() && env::var_os("MAILROOM_TEST_DATABASE_URL").is_some();
    let wanted = options.postgres.map_or_else(Wanted::from_environment, Ok)?;
    if !is_provided {
        let wanted = wanted.clone();
        steps.add(&format!("find {wanted}"), &[], move || wanted.find().map(drop));
    }
    if !steps.run() {
        return Ok(ExitCode::FAILURE);
    }
    let mut demonstration = demonstration(is_whole)?;
    if !is_provided {
        demonstration.env("MAILROOM_TEST_POSTGRES", wanted.find()?.programs);
        demonstration.env_remove("MAILROOM_TEST_DATABASE_URL");
    }
    Err(demonstration.exec()).context("cannot run the demonstration")
}

/// The demonstration in Chromium, on the first of the versions: what differs between them other
/// parts look at.
pub(crate) fn test_pages(steps: &mut Steps, extent: Extent) {
    rust::build(steps);
    consumers::biome(steps, "formatting and lints of the web demonstration", SOURCE);
    steps.add(SITE, &[PACK], || build(true));
    steps.add("types of the web demonstration", &[SITE], || {
        let mut command = node::command()?;
        command.arg("check.mjs").current_dir(workspace().join(SOURCE));
        Ok(command)
    });
    let Some(wanted) = extent.versions.first() else { return };
    steps.add(&format!("web demonstration on {wanted}"), &[BUILD, SITE], move || {
        let server = Cluster::builder().version(wanted.clone()).start()?;
        let mut command = node::command()?;
        command
            .arg(workspace().join("web-demo/test/main.mjs"))
            .arg(target_folder().join("consumers/web"));
        command.env("MAILROOM_TEST_DATABASE_URL", server.url("postgres"));
        command.args(extent.groups);
        tell(&mut command, true)?;
        extent.tell(&mut command);
        Ok((command, Some(server)))
    });
}

/// The edge function as Cloudflare's tool bundles it, with the package that the build puts there.
pub(crate) fn test_deployment(steps: &mut Steps, extent: Extent) {
    let title = "deployment of the web demonstration";
    consumers::suite_after(steps, &[PACK, SITE], extent, title, "handlers");
}

/// The demonstration in the terminal: on each version it ends by itself, with every token verified.
pub(crate) fn test_once(steps: &mut Steps, extent: Extent) {
    rust::build(steps);
    steps.add(PROGRAMS, &[], || build(false));
    for wanted in extent.versions {
        steps.add(&format!("demonstration on {wanted}"), &[BUILD, PROGRAMS], || {
            let mut command = demonstration(false)?;
            command.env("MAILROOM_TEST_POSTGRES", wanted.find()?.programs);
            command.env_remove("MAILROOM_TEST_DATABASE_URL");
            Ok(command)
        });
    }
}

/// Builds the programs for Node and, if it `is_whole`, the pages and the edge function with the
/// packed npm package.
fn build(is_whole: bool) -> Result<()> {
    node::install(SOURCE)?;
    let mut command = node::command()?;
    command.arg(workspace().join(SOURCE).join("build.mjs")).arg(site(is_whole));
    if is_whole {
        command.arg(npm::tarball()?);
    }
    watch(&mut command, "build the demonstration")
}

/// What was built, run: the whole in the browser, or once in the terminal.
fn demonstration(is_whole: bool) -> Result<Command> {
    let program = if is_whole { "node/stage.js" } else { "node/once.js" };
    let mut command = node::command()?;
    command.arg(site(is_whole).join(program));
    tell(&mut command, is_whole)?;
    Ok(command)
}

fn site(is_whole: bool) -> PathBuf {
    target_folder().join(if is_whole { "web-demo" } else { "web-demo-once" })
}

/// Tells where the other programs are.
fn tell(command: &mut Command, is_whole: bool) -> Result<()> {
    let workerd = node::program(SOURCE, "@cloudflare/workerd", "64", "workerd")?;
    command.env("MAILROOM_DEMO_SITE", site(is_whole)).env("MAILROOM_DEMO_WORKERD", workerd);
    command.env("MAILROOM_DEMO_XTASK", tools::built("xtask")?);
    command.env("MAILROOM_TEST_PROGRAM", tools::built("mailroom")?);
    command.env("MAILROOM_DEMO_INBOX", tools::built("mailroom-inbox")?);
    Ok(())
}
