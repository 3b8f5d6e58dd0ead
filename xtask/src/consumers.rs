//! The steps that use the packed npm package as its users do, none of them from the source tree.

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
}

/// The suite in Chromium, from a static server.
pub(crate) fn browser(steps: &mut Steps) {
    run(steps, "package in Chromium", "browser");
}

/// Programs, pages and a Worker that Vite, webpack, esbuild and Rollup build.
pub(crate) fn bundlers(steps: &mut Steps) {
    run(steps, "package through bundlers", "bundlers");
}

/// The README of the package, whose files and commands are pasted into an empty folder.
pub(crate) fn readme(steps: &mut Steps) {
    run(steps, "README of the package, followed", "readme");
}

fn run(steps: &mut Steps, title: &str, name: &str) {
    steps.command(title, || {
        let tarball = npm::tarball()?;
        node::install_test_tools()?;
        let mut command = node::command()?;
        command.arg(workspace().join("tests").join(name).join("main.mjs"));
        command.arg(tarball).arg(target_folder().join("consumers").join(name));
        Ok(command)
    });
}
