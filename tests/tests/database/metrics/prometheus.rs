//! What Prometheus makes of the metrics; and the alerts and the dashboard, which ask for no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, wait_until};
use mailroom_tests::machine::skip;
use mailroom_tests::port;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use mailroom_tests::sending::Configuration;
use mailroom_tests::tools::workspace;
use serde_json::Value;
use tempfile::TempDir;

use super::senders::address_of_sender;
use super::{Served, get};
use crate::bounces::Bounces;

const RULES: &str = "packaging/prometheus/mailroom.rules.yml";
const RULE_TESTS: &str = "packaging/prometheus/mailroom.rules.test.yml";
const DASHBOARD: &str = "packaging/grafana/mailroom.json";
const DOCUMENT: &str = "docs/reference/metrics.md";
const ADVICE: &str = "docs/operate/alerts.md";

/// A Prometheus that scrapes one address every second, ended when this is dropped.
struct Prometheus {
    child: Child,
    port: u16,
    folder: TempDir,
}

impl Prometheus {
    fn start(target: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let rules = workspace().join(RULES);
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\n\
             scrape_configs:\n  - job_name: mailroom\n    \
             static_configs: [{{targets: ['{target}']}}]\n",
            rules.display()
        );
        fs::write(folder.path().join("prometheus.yml"), configuration)?;
        let port = port::free()?;
        let child = Command::new("prometheus")
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log"))?)
            .spawn()?;
        Ok(Self { child, port, folder })
    }

    /// The value of a query that has one, as text.
    fn query(&self, query: &str) -> Result<Option<String>> {
        let url = format!("http://127.0.0.1:{}", self.port);
        let output = Command::new("promtool")
            .args(["query", "instant", "--format=json", &url, query])
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout)?;
        Ok(answer[0]["value"][1].as_str().map(str::to_owned))
    }

    fn wait_for(&self, query: &str, value: &str) -> Result<()> {
        let mut last = None;
        let has_it = || {
            last = self.query(query).ok().flatten();
            last.as_deref() == Some(value)
        };
        wait_until(has_it).with_context(|| {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            format!("{query} is {last:?}, not {value}\n{log}")
        })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn has_prometheus() -> bool {
    let is_there = |program| Command::new(program).arg("--version").output().is_ok();
    let has_both = is_there("prometheus") && is_there("promtool");
    if !has_both {
        skip("there is no Prometheus; install Debian's package prometheus");
    }
    has_both
}

/// Runs promtool, which has to be content.
fn promtool(arguments: &[&str], input: Option<&Path>) -> Result<()> {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(workspace());
    if let Some(input) = input {
        command.stdin(fs::File::open(input)?);
    }
    let output = command.output()?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    Ok(())
}

/// The words of a text that begin as metrics do.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("mailroom_")).collect()
}

#[tokio::test]
async fn prometheus_reads_every_metric_and_finds_nothing_to_blame() -> Result<()> {
    if !has_prometheus() {
        return Ok(());
    }
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut served = Served::start(database.url(), &[("MAILROOM_BATCH_TIMEOUT", "0")])?;
    let lines = served.collector.lines()?;
    let prometheus = Prometheus::start(&served.address)?;
    prometheus.wait_for("up", "1")?;
    prometheus.wait_for("mailroom_ready", "1")?;
    // While mails go out.
    for round in 0..10 {
        register(&client, round * 100 + 1..=round * 100 + 100).await?;
        lines.next_items(100)?;
    }
    prometheus.wait_for("mailroom_settled_tokens_total{verdict=\"sent\"}", "1000")?;
    prometheus.wait_for("mailroom_delivery_delay_seconds_count", "1000")?;
    prometheus.wait_for("max_over_time(scrape_samples_scraped[1h]) > bool 50", "1")?;
    prometheus.wait_for("min(up)", "1")?;
    let (_, plain) = served.get("/metrics")?;
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), plain)?;
    promtool(&["check", "metrics"], Some(file.path()))?;
    served.collector.stop()?;
    Ok(())
}

#[test]
fn the_alerts_ring_for_what_they_are_for() -> Result<()> {
    if has_prometheus() {
        promtool(&["check", "rules", RULES], None)?;
        promtool(&["test", "rules", RULE_TESTS], None)?;
    }
    Ok(())
}

#[tokio::test]
async fn alerts_dashboard_and_document_know_the_metrics_that_exist() -> Result<()> {
    let database = Database::migrated()?;
    // Metrics without a value are not named.
    register(&database.connect().await?, 1..=5).await?;
    let configuration = Configuration::smtp(1, "")?;
    let program = collector::command(database.url())?.get_program().to_owned();
    let sender = format!(
        "'{}' send --config '{}' --metrics-address 0",
        program.display(),
        configuration.file().display()
    );
    let settings = [("MAILROOM_RATE", "9/s,1000/month"), ("MAILROOM_SENDER", &*sender)];
    let served = Served::start(database.url(), &settings)?;
    let of_sender = address_of_sender(&served.collector)?;
    let bounces = Bounces::listen_with_metrics(database.url())?;
    let has_all = |text: &str| {
        text.contains("mailroom_sender_state{") && text.contains("mailroom_queue_tokens{")
    };
    wait_until(|| served.get("/metrics").is_ok_and(|(_, text)| has_all(&text)))?;
    let addresses = [&*served.address, &of_sender, &bounces.metrics_address()?];
    let mut plain = String::new();
    for address in addresses {
        let (_, of_program) = get(address, "/metrics")?;
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), &of_program)?;
        if has_prometheus() {
            promtool(&["check", "metrics"], Some(file.path()))?;
        }
        plain.push_str(&of_program);
    }
    let exist: BTreeSet<_> = plain
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .flat_map(|line| {
            let (name, kind) = line.split_once(' ').unwrap_or((line, ""));
            let endings: &[&str] =
                if kind == "histogram" { &["_bucket", "_count", "_sum"] } else { &[""] };
            endings.iter().map(move |ending| format!("{name}{ending}")).collect::<Vec<_>>()
        })
        .collect();
    let read = |path| fs::read_to_string(workspace().join(path));
    let (rules, tests, dashboard) = (read(RULES)?, read(RULE_TESTS)?, read(DASHBOARD)?);
    let (document, advice) = (read(DOCUMENT)?, read(ADVICE)?);
    serde_json::from_str::<Value>(&dashboard)?;
    for (path, text) in [(RULES, &rules), (RULE_TESTS, &tests), (DASHBOARD, &dashboard)] {
        let asked = metrics_in(text);
        assert!(asked.len() > 5, "{path} asks for {asked:?}");
        for name in asked {
            assert!(exist.contains(name), "{path} asks for {name}, which does not exist");
        }
    }
    // One document and the dashboard have each of them, and another document each alert.
    for name in &exist {
        let name = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|ending| name.strip_suffix(ending))
            .unwrap_or(name);
        assert!(document.contains(&format!("`{name}`")), "{DOCUMENT} lacks {name}");
        assert!(dashboard.contains(name), "{DASHBOARD} lacks {name}");
    }
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: Vec<_> = alerts.collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in alerts {
        assert!(advice.contains(&format!("\n### {alert}\n")), "{ADVICE} lacks {alert}");
        assert!(tests.contains(alert), "{RULE_TESTS} lacks {alert}");
    }
    bounces.program.stop()?;
    served.collector.stop()?;
    Ok(())
}
