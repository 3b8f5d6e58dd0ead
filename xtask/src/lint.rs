//! The steps that read the code without running it.

use anyhow::ensure;

use crate::rust::{BUILD, TARGETS};
use crate::step::{Prepared, Steps};
use crate::tools;

const CLIPPY: &str = "clippy";

pub(crate) fn formatting(steps: &mut Steps) {
    steps.later("formatting", &[], || {
        tools::add_component("fmt", "rustfmt")?;
        Ok(tools::cargo(["fmt", "--all", "--check"]).into())
    });
}

/// Everything once for this machine, and the modules of the npm package, whose code is compiled for nothing else, with the core.
pub(crate) fn clippy(steps: &mut Steps) {
    clippy_of(steps, CLIPPY, &[], &["--workspace", "--all-targets"]);
    for feature in ["shared", "public"] {
        let title = format!("clippy, module of {feature} keys");
        let packages = ["--package", "mailroom-verifier-wasm", "--package", "mailroom-verifier-core"];
        let features = format!("mailroom-verifier-wasm/{feature}");
        let features = ["--no-default-features", "--features", &features, "--target", TARGETS[0]];
        // After the build, which others wait for.
        clippy_of(steps, &title, &[CLIPPY, BUILD], &[&packages[..], &features].concat());
    }
}

fn clippy_of(steps: &mut Steps, title: &str, needs: &[&'static str], arguments: &[&str]) {
    let mut command = tools::cargo(["clippy"]);
    command.args(arguments).args(["--", "-D", "warnings"]);
    steps.later(title, needs, || {
        tools::add_component("clippy", "clippy")?;
        tools::add_targets(&TARGETS)?;
        Ok(command.into())
    });
}

/// The crate of the core as crates.io would get it, of which cargo warns of nothing. What it is made of is compiled elsewhere.
pub(crate) fn core_package(steps: &mut Steps) {
    steps.later("package of the core", &[], || {
        let mut command = tools::cargo(["package", "--package", "mailroom-verifier-core", "--locked"]);
        let output = command.args(["--offline", "--allow-dirty", "--no-verify"]).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && !said.contains("warning"), "{said}");
        Ok(Prepared::default())
    });
}
