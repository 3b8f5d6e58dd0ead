//! The steps that read the code without running it.

use anyhow::ensure;

use crate::step::Steps;
use crate::tools;

/// Targets for which the core must compile: a browser, and a processor without an operating system.
pub(crate) const CORE_TARGETS: [&str; 2] = ["wasm32-unknown-unknown", "thumbv7em-none-eabi"];

pub(crate) fn formatting(steps: &mut Steps) {
    steps.command("formatting", || {
        tools::add_component("fmt", "rustfmt")?;
        Ok(tools::cargo(["fmt", "--all", "--check"]))
    });
}

pub(crate) fn clippy(steps: &mut Steps) {
    steps.command("clippy", || {
        tools::add_component("clippy", "clippy")?;
        Ok(tools::cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
}

/// The core alone, with nothing but what every machine has.
pub(crate) fn core(steps: &mut Steps) {
    steps.command("clippy, core on other machines", || {
        tools::add_component("clippy", "clippy")?;
        tools::add_targets(&CORE_TARGETS)?;
        let mut command =
            tools::cargo(["clippy", "--package", "mailroom-verifier-core", "--no-default-features"]);
        for target in CORE_TARGETS {
            command.args(["--target", target]);
        }
        command.args(["--", "-D", "warnings"]);
        Ok(command)
    });
}

/// The crate of the core as crates.io would get it, of which cargo warns of nothing. What it is made of is compiled elsewhere.
pub(crate) fn core_package(steps: &mut Steps) {
    steps.task("package of the core", || {
        let mut command = tools::cargo(["package", "--package", "mailroom-verifier-core", "--locked"]);
        let output = command.args(["--offline", "--allow-dirty", "--no-verify"]).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && !said.contains("warning"), "{said}");
        Ok(())
    });
}

/// The modules of the npm package, whose code is compiled for nothing else.
pub(crate) fn modules(steps: &mut Steps) {
    for feature in ["shared", "public"] {
        steps.command(&format!("clippy, module of {feature} keys"), || {
            tools::add_component("clippy", "clippy")?;
            tools::add_targets(&CORE_TARGETS[..1])?;
            let mut command = tools::cargo(["clippy", "--package", "mailroom-verifier-wasm"]);
            command.args(["--no-default-features", "--features", feature, "--target", CORE_TARGETS[0]]);
            command.args(["--", "-D", "warnings"]);
            Ok(command)
        });
    }
}
