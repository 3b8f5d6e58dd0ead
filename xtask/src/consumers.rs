//! The steps that use the packed npm package as its users do, none of them from the source tree.

use std::process::Command;

use anyhow::Result;
use mailroom_tests::postgres::{Cluster, Wanted};
use mailroom_tests::tools::{target_folder, workspace};

use crate::step::Steps;
use crate::{node, npm};

/// The suite on Node, Deno, Bun and workerd, once its own code is in order.
pub(crate) fn runtimes(steps: &mut Steps) {
    steps.command("lints of the tests in JavaScript", || {
        node::install_test_tools()?;
        let mut command = node::command()?;
        command.args(["node_modules/@biomejs/biome/bin/biome", "ci", "--colors=off"]);
        command.current_dir(workspace().join("tests"));
        Ok(command)
    });
    run(steps, "package on Node, Deno, Bun, workerd", "runtimes");
    if pack(steps) {
        let installed = node::install(&workspace().join("tests/jest"));
        steps.later("package in Jest", None, installed.and_then(|()| command("jest", "jest")));
    }
}

/// The suite in Chromium, from a static server.
pub(crate) fn browser(steps: &mut Steps) {
    run(steps, "package in Chromium", "browser");
}

/// Programs, pages and a Worker that Vite, webpack, esbuild and Rollup build.
pub(crate) fn bundlers(steps: &mut Steps) {
    run(steps, "package through bundlers", "bundlers");
}

/// Applications of Nuxt, Next.js, Astro and `SvelteKit`, built for production and run.
pub(crate) fn frameworks(steps: &mut Steps) {
    if pack(steps) {
        let installed = node::install(&workspace().join("tests/handlers"));
        let command = installed.and_then(|()| command("frameworks", "frameworks"));
        steps.later("package in applications of frameworks", None, command);
    }
}

/// The README of the package, whose files and commands are pasted into an empty folder.
pub(crate) fn readme(steps: &mut Steps) {
    run(steps, "README of the package, followed", "readme");
}

/// The stores of used tokens, each against the real thing: servers of Redis and PostgreSQL of their own, workerd.
pub(crate) fn stores(steps: &mut Steps, versions: &[Wanted]) {
    if !pack(steps) {
        return;
    }
    let others = command("stores", "stores").map(|mut command| {
        command.args(["kit", "memory", "redis", "durable-objects"]);
        command
    });
    steps.later("stores of used tokens", None, others);
    for wanted in versions {
        let Some(server) =
            steps.task(&format!("start {wanted}"), || Cluster::builder().version(wanted.clone()).start())
        else {
            continue;
        };
        let major = server.installation().major;
        let command = command("stores", &format!("stores-postgres-{major}")).map(|mut command| {
            command
                .arg("postgres")
                .env("PGHOST", server.socket_dir())
                .env("PGPORT", server.port().to_string());
            command.env("PGUSER", "postgres").env("PGDATABASE", "postgres");
            command
        });
        steps.later(&format!("store of used tokens in PostgreSQL {major}"), Some(server), command);
    }
}

fn run(steps: &mut Steps, title: &str, name: &str) {
    if pack(steps) {
        steps.later(title, None, command(name, name));
    }
}

/// Packs the package, and installs what its consumers are tested with. Returns whether there is something to test.
fn pack(steps: &mut Steps) -> bool {
    const TITLE: &str = "pack the npm package";
    if !steps.has_run(TITLE) {
        steps.task(TITLE, || {
            npm::tarball()?;
            node::install_test_tools()
        });
    }
    steps.has_passed(TITLE)
}

/// The program `tests/NAME/main.mjs`, which is given the packed package and a folder to install it into.
fn command(name: &str, folder: &str) -> Result<Command> {
    let tarball = npm::tarball()?;
    node::install_test_tools()?;
    let mut command = node::command()?;
    command.arg(workspace().join("tests").join(name).join("main.mjs"));
    command.arg(tarball).arg(target_folder().join("consumers").join(folder));
    Ok(command)
}
