//! The units for systemd are such that systemd takes, and keep what they run in a sandbox.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use mailroom_tests::machine::skip;
use mailroom_tests::program;
use mailroom_tests::tools::workspace;

/// In `packaging`.
const UNITS: [&str; 4] =
    ["mailroom.service", "mailroom@.service", "mailroom-bounces.service", "mailroom-serve.service"];

#[test]
fn each_unit_is_valid_starts_for_ever_and_is_exposed_to_2_0_at_most() -> Result<()> {
    let document = fs::read_to_string(workspace().join("docs/operate/install.md"))?;
    ensure!(!document.contains("[Service]"), "docs/operate/install.md has a unit of its own");
    let program = program::path()?;
    the_sample_is_read(&program)?;
    for name in UNITS {
        let unit = workspace().join("packaging").join(name);
        let text = fs::read_to_string(&unit)?;
        starts_for_ever(&text)?;
        let link = format!("(../../packaging/{name})");
        ensure!(document.contains(&link), "docs/operate/install.md does not name {name}");
        let threshold = ["security", "--offline=yes", "--threshold=20", "--no-pager"];
        let Some(exposed) = analyze(&threshold, &unit)? else {
            skip("there is no systemd-analyze; install systemd");
            return Ok(());
        };
        ensure!(exposed.status.success(), "above 2.0:\n{}", said(&exposed));
        // It wants to see the program.
        let folder = tempfile::tempdir()?;
        let installed = folder.path().join(name);
        fs::write(&installed, text.replace("ExecStart=mailroom", &format!("ExecStart={program}")))?;
        let verified = analyze(&["verify", "--man=no"], &installed)?.context("it was there")?;
        // Settings that it does not know are only said.
        ensure!(
            verified.status.success() && !said(&verified).contains("mailroom"),
            "{}",
            said(&verified)
        );
    }
    Ok(())
}

#[test]
fn a_collector_of_several_differs_from_the_only_one_by_its_files_alone() -> Result<()> {
    let [one, several] = ["mailroom.service", "mailroom@.service"]
        .map(|name| fs::read_to_string(workspace().join("packaging").join(name)));
    let settings = |unit: &str| -> Vec<String> {
        let lines = unit.lines().filter(|line| line.contains('=') && !line.starts_with("# "));
        lines.filter(|line| !line.starts_with("Description=")).map(str::to_owned).collect()
    };
    let expected = settings(&one?)
        .into_iter()
        .map(|line| {
            line.replace("/etc/mailroom/collector.env", "/etc/mailroom/databases/%i/collector.env")
        })
        .map(|line| line.replace("/etc/mailroom/send.toml", "/etc/mailroom/databases/%i/send.toml"))
        .map(|line| line.replace("/etc/mailroom/key", "/etc/mailroom/databases/%i/key"))
        .map(|line| line.replace("StateDirectory=mailroom", "StateDirectory=mailroom/%i"));
    assert_eq!(settings(&several?), expected.collect::<Vec<_>>());
    Ok(())
}

/// Files of `/etc/mailroom` that a unit names outside of its comments.
fn settings_of(unit: &str) -> Vec<&str> {
    let lines = unit.lines().filter(|line| !line.starts_with('#'));
    let words = lines.flat_map(|line| line.split([' ', '=', '"']));
    words.filter_map(|word| word.strip_prefix("/etc/mailroom/")).collect()
}

#[test]
fn the_settings_that_a_unit_names_are_in_archives_and_packages() -> Result<()> {
    let read = |path: &str| fs::read_to_string(workspace().join(path));
    let stage = read("xtask/src/dist/stage.rs")?;
    let package = read("packaging/debian/mailroom.install")?;
    let secret = read("packaging/debian/mailroom.lintian-overrides")?;
    let trial = read("packaging/test/deb.sh")?;
    let services = trial.lines().find(|line| line.starts_with("for unit in "));
    let services = services.context("deb.sh looks at no unit")?.replace(';', " ");
    for unit in UNITS.into_iter().filter(|unit| !unit.contains('@')) {
        let text = read(&format!("packaging/{unit}"))?;
        let settings = settings_of(&text);
        ensure!(settings.len() > 1, "{unit} names only {settings:?}");
        for name in settings {
            ensure!(stage.contains(&format!("\"examples/{name}\"")), "archives lack {name}");
            let line = format!("files/examples/{name} etc/mailroom\n");
            ensure!(package.contains(&line), "the package lacks {name}");
            // What has a password is for root alone; the rest is read by the service's user.
            let is_environment = Path::new(name).extension().is_some_and(|end| end == "env");
            let is_secret = secret.contains(&format!("[etc/mailroom/{name}]"));
            ensure!(is_secret == is_environment, "{name} has the wrong mode");
        }
        let service = unit.trim_end_matches(".service");
        ensure!(services.split(' ').any(|name| name == service), "deb.sh does not try {service}");
    }
    Ok(())
}

/// The sender that the unit runs reads the configuration beside it, and its journal lies where the
/// service may write.
fn the_sample_is_read(program: &str) -> Result<()> {
    let sample = fs::read_to_string(workspace().join("packaging/send.toml"))?;
    ensure!(
        sample.contains("journal = \"/var/lib/mailroom/journal\""),
        "the journal is not in StateDirectory=mailroom"
    );
    let folder = tempfile::tempdir()?;
    let password = folder.path().join("smtp-password");
    fs::write(&password, "hunter2")?;
    let config = folder.path().join("send.toml");
    fs::write(&config, sample.replace("/etc/mailroom/smtp-password", &password.to_string_lossy()))?;
    let preview = folder.path().join("preview");
    let output = Command::new(program)
        .args(["send", "--config"])
        .arg(&config)
        .arg("--preview")
        .arg(&preview)
        .output()?;
    ensure!(output.status.success() && preview.join("index.html").exists(), "{}", said(&output));
    Ok(())
}

/// An outage does not end it, a wrong setting does, and a sender has the time that its default
/// timeout gives it.
fn starts_for_ever(unit: &str) -> Result<()> {
    let collects = unit.contains(" collect ");
    let of_collectors: &[&str] = if collects {
        &["KillMode=mixed", "TimeoutStopSec=40", "Type=notify", "WatchdogSec=120"]
    } else {
        &[]
    };
    for line in [
        "Wants=network-online.target",
        "After=network-online.target",
        "StartLimitIntervalSec=0",
        "Restart=always",
        "RestartPreventExitStatus=2",
        "WantedBy=multi-user.target",
    ]
    .iter()
    .chain(of_collectors)
    {
        ensure!(unit.lines().any(|own| own == *line), "the unit lacks {line}");
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
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
