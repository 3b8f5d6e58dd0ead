//! The steps that use the packed npm package as its users do, none of them from the source tree.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use mailroom_tests::postgres::Cluster;
use mailroom_tests::tools::{target_folder, workspace};

use crate::step::{Prepared, Steps};
use crate::test::Extent;
use crate::{node, npm};

/// The step that packs the package, and installs what its consumers are tested with.
pub(crate) const PACK: &str = "pack the npm package";

/// Where npm installs what the tests need, each by its own lock file.
const TOOLS: [&str; 4] = ["tests", "tests/jest", "tests/handlers", "web-demo"];

pub(crate) fn pack(steps: &mut Steps) {
    steps.later(PACK, &[], || {
        for folder in TOOLS {
            node::install(&workspace().join(folder))?;
        }
        npm::tarball()?;
        Ok(Prepared::default())
    });
}

/// The suite on Node, Deno, Bun and workerd, and in Jest.
pub(crate) fn runtimes(steps: &mut Steps, extent: &Extent) {
    run(steps, extent, "package on Node, Deno, Bun, workerd", "runtimes");
    run(steps, extent, "package in Jest", "jest");
    pack(steps);
    steps.later("lints of the tests in JavaScript", &[PACK], || {
        let mut command = biome(&workspace().join("tests"));
        command.current_dir(workspace().join("tests"));
        Ok(command.into())
    });
}

/// The suite in Chromium, from a static server.
pub(crate) fn browser(steps: &mut Steps, extent: &Extent) {
    run(steps, extent, "package in Chromium", "browser");
}

/// Programs, pages and a Worker that Vite, webpack, esbuild and Rollup build.
pub(crate) fn bundlers(steps: &mut Steps, extent: &Extent) {
    run(steps, extent, "package through bundlers", "bundlers");
}

/// Applications of Nuxt, Next.js, Astro and `SvelteKit`, built for production and run.
pub(crate) fn frameworks(steps: &mut Steps, extent: &Extent) {
    run(steps, extent, "package in applications of frameworks", "frameworks");
}

/// The README of the package, whose files and commands are pasted into an empty folder.
pub(crate) fn readme(steps: &mut Steps, extent: &Extent) {
    run(steps, extent, "README of the package, followed", "readme");
}

/// What the README of the demonstration shows for other frameworks, with the real ones.
pub(crate) fn handlers(steps: &mut Steps, extent: &Extent) {
    run(steps, extent, "handlers of the web demonstration's README", "handlers");
}

/// The stores of used tokens, each against the real thing: servers of Redis and PostgreSQL of their own, workerd.
pub(crate) fn stores(steps: &mut Steps, extent: &Extent) {
    pack(steps);
    for topics in [&["redis"][..], &["durable-objects"], &["kit", "memory"]] {
        let extent = extent.clone();
        steps.later(&format!("stores of used tokens, {}", topics.join(", ")), &[PACK], move || {
            let mut command = command(&extent, "stores", &format!("stores-{}", topics[0]))?;
            command.args(topics);
            Ok(command.into())
        });
    }
    for wanted in extent.versions.clone() {
        let extent = extent.clone();
        steps.later(&format!("store of used tokens in {wanted}"), &[PACK], move || {
            let server = Cluster::builder().version(wanted).start()?;
            let mut command =
                command(&extent, "stores", &format!("stores-postgres-{}", server.installation().major))?;
            command
                .arg("postgres")
                .env("PGHOST", server.socket_dir())
                .env("PGPORT", server.port().to_string());
            command.env("PGUSER", "postgres").env("PGDATABASE", "postgres");
            Ok(Prepared::with_server(command, server))
        });
    }
}

/// The formatting and lints of a folder of JavaScript, by what npm installed into it.
pub(crate) fn biome(folder: &Path) -> Command {
    let mut command = Command::new(folder.join("node_modules/.bin/biome"));
    command.args(["ci", "--colors=off", "."]).current_dir(folder);
    command
}

fn run(steps: &mut Steps, extent: &Extent, title: &str, name: &'static str) {
    pack(steps);
    let extent = extent.clone();
    steps.later(title, &[PACK], move || Ok(command(&extent, name, name)?.into()));
}

/// The program `tests/NAME/main.mjs`, which is given the packed package and a folder to install it into.
fn command(extent: &Extent, name: &str, folder: &str) -> Result<Command> {
    let mut command = node::command()?;
    command.arg(workspace().join("tests").join(name).join("main.mjs"));
    command.arg(npm::tarball()?).arg(target_folder().join("consumers").join(folder));
    extent.tell(&mut command);
    Ok(command)
}
