//! The unit for systemd is one that systemd takes, and keeps the collector in a sandbox.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use mailroom_tests::machine::skip;
use mailroom_tests::program;
use mailroom_tests::tools::workspace;

#[test]
fn the_unit_is_valid_starts_for_ever_and_is_exposed_to_3_0_at_most() -> Result<()> {
    let unit = workspace().join("packaging/mailroom.service");
    let text = fs::read_to_string(&unit)?;
    starts_for_ever(&text)?;
    let document = fs::read_to_string(workspace().join("docs/OPERATIONS.md"))?;
    ensure!(
        document.contains("(../packaging/mailroom.service)"),
        "docs/OPERATIONS.md does not name the unit"
    );
    ensure!(!document.contains("[Service]"), "docs/OPERATIONS.md has a unit of its own");
    let threshold = ["security", "--offline=yes", "--threshold=30", "--no-pager"];
    let Some(exposed) = analyze(&threshold, &unit)? else {
        skip("there is no systemd-analyze; install systemd");
        return Ok(());
    };
    ensure!(exposed.status.success(), "above 3.0:\n{}", said(&exposed));
    // It wants to see the program.
    let folder = tempfile::tempdir()?;
    let installed = folder.path().join("mailroom.service");
    let program = program::mailroom()?.get_program().to_string_lossy().into_owned();
    fs::write(&installed, text.replace("/usr/local/bin/mailroom", &program))?;
    let verified = analyze(&["verify", "--man=no"], &installed)?.context("it was there")?;
    // Settings that it does not know are only said.
    ensure!(
        verified.status.success() && !said(&verified).contains("mailroom.service"),
        "{}",
        said(&verified)
    );
    Ok(())
}

/// An outage does not end it, a wrong setting does, and a sender has the time that its default timeout gives it.
fn starts_for_ever(unit: &str) -> Result<()> {
    for line in [
        "Wants=network-online.target",
        "After=network-online.target",
        "StartLimitIntervalSec=0",
        "Restart=always",
        "RestartPreventExitStatus=2",
        "KillMode=mixed",
        "TimeoutStopSec=40",
        "WantedBy=multi-user.target",
    ] {
        ensure!(unit.lines().any(|own| own == line), "the unit lacks {line}");
    }
    Ok(())
}

/// Nothing if there is no such program.
fn analyze(arguments: &[&str], unit: &Path) -> Result<Option<Output>> {
    match Command::new("systemd-analyze").args(arguments).arg(unit).output() {
        Ok(output) => Ok(Some(output)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("systemd-analyze cannot be started"),
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
