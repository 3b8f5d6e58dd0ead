//! Three servers under Patroni, in networks of their own, and `HAProxy` before them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::sleep;
use tokio_postgres::Client;

use super::account;
use super::database::connect;
use super::folder;
use super::installation::Wanted;
use super::pool::Pool;
use super::supervisor::Supervisor;
use crate::stopwatch::Stopwatch;
use crate::trial::PATIENCE;
use crate::{book, http, port};

/// The page whose settings are used.
const PAGE: &str = "operate/patroni.md";

/// Debian's version, which its Patroni runs.
const POSTGRES: u32 = 15;

/// Where `HAProxy` listens, at [`Nodes::address`] of [`HERE`].
const HAPROXY_PORT: u16 = 5000;

/// The last byte of this side's address.
const HERE: u8 = 254;

/// The last bytes of the addresses of the nodes.
pub const NODES: [u8; 3] = [1, 2, 3];

/// Removes the folder when all has ended. The namespaces of the shell end with it.
const SCRIPT: &str = r#"folder=$1
unshare --mount --pid --fork --kill-child --mount-proc bash "$folder/nodes.sh" "$@"
rm -rf "$folder""#;

/// Three nodes, ended and removed when this is dropped.
#[derive(Debug)]
pub struct Nodes {
    folder: PathBuf,
    network: String,
    supervisor: Supervisor,
}

/// Whether [`Nodes`] can be started here: only root can make networks, and root of a container may
/// be refused, too.
pub fn can_be_started() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "ip", "link", "add", "probe", "type", "bridge"]);
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

impl Nodes {
    /// Starts them, with the settings of the page, and returns when all three serve. If
    /// `is_synchronous` is false, commits wait for no standby.
    pub async fn start(is_synchronous: bool) -> Result<Self> {
        for program in ["/usr/bin/patroni", "/usr/bin/etcd", "/usr/sbin/haproxy"] {
            ensure!(
                Path::new(program).exists(),
                "there is no {program}: install Debian's packages patroni, python3-etcd, \
                 etcd-server and haproxy"
            );
        }
        let programs = Wanted::Major(POSTGRES).find()?.programs;
        let folder = folder::create()?;
        let network = unused_network();
        let shared = shared_settings(is_synchronous)?;
        let filled = |template: &str, node: u8| {
            template
                .replace("{shared}", &shared)
                .replace("{node}", &node.to_string())
                .replace("{network}", &network)
                .replace("{programs}", &programs.to_string_lossy())
                .replace("{folder}", &folder.to_string_lossy())
        };
        let account = account::to_change_to(&folder)?.context("only root can make networks")?;
        account.own(&folder)?;
        for node in NODES {
            let own = folder.join(node.to_string());
            fs::create_dir(&own)?;
            account.own(&own)?;
            fs::write(own.join("patroni.yml"), filled(include_str!("patroni.yml"), node))?;
        }
        let mut haproxy = book::block(PAGE, "haproxy")?;
        for node in NODES {
            haproxy = haproxy.replace(&format!("db{node}"), &format!("{network}.{node}"));
        }
        let here = format!("bind {network}.{HERE}:{HAPROXY_PORT}");
        fs::write(folder.join("haproxy.cfg"), haproxy.replace("bind 127.0.0.1:5000", &here))?;
        fs::write(folder.join("nodes.sh"), include_str!("nodes.sh"))?;

        let device = format!("mail{}", port::free()?);
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(&folder);
        command.args([account.user, account.group].map(|number| number.to_string()));
        command.args([&network, &device]).arg(&programs);
        command.current_dir("/").env("LC_ALL", "C");
        let mut nodes = Self { folder, network, supervisor: Supervisor::of(&mut command)? };
        nodes.run("prepare").context("no network can be made")?;
        nodes.run("haproxy")?;
        for command in ["etcd", "start"] {
            for node in NODES {
                nodes.run(&format!("{command} {node}"))?;
            }
        }
        nodes.settled(is_synchronous).await?;
        Ok(nodes)
    }

    /// The address of a node.
    pub fn address(&self, node: u8) -> String {
        format!("{}.{node}", self.network)
    }

    /// How all nodes are connected to at once, as the superuser.
    pub fn all(&self, database: &str) -> String {
        let hosts = NODES.map(|node| self.address(node)).join(",");
        format!(
            "host={hosts} port=5432 user=postgres dbname={database} connect_timeout=3 \
             target_session_attrs=read-write load_balance_hosts=random"
        )
    }

    /// How a node is connected to.
    pub fn one(&self, node: u8, database: &str) -> String {
        format!("host={} port=5432 user=postgres dbname={database}", self.address(node))
    }

    /// How the leader is connected to by `HAProxy`.
    pub fn through_haproxy(&self, database: &str) -> String {
        let host = self.address(HERE);
        format!("host={host} port={HAPROXY_PORT} user=postgres dbname={database}")
    }

    /// A `PgBouncer` with the settings of the page, before `HAProxy`.
    pub fn pool(&self, mode: &str) -> Result<Pool> {
        let server = format!("host={} port={HAPROXY_PORT} user=postgres", self.address(HERE));
        Pool::start_before(&server, mode, 12, &book::block(PAGE, "ini")?)
    }

    /// Ends Patroni and PostgreSQL of a node at once, as when memory runs out.
    pub fn kill(&mut self, node: u8) -> Result<()> {
        self.run(&format!("kill {node}"))
    }

    /// Cuts a node from every etcd but its own.
    pub fn cut(&mut self, node: u8) -> Result<()> {
        self.run(&format!("cut {node}"))
    }

    /// Joins it again.
    pub fn join(&mut self, node: u8) -> Result<()> {
        self.run(&format!("join {node}"))
    }

    /// Starts Patroni of a killed node, which starts PostgreSQL.
    pub fn start_again(&mut self, node: u8) -> Result<()> {
        self.run(&format!("start {node}"))
    }

    /// Shows a database as a killed node has left it, until [`Nodes::remove_left`].
    pub async fn left(&mut self, node: u8, database: &str) -> Result<Client> {
        if !self.folder.join(format!("{node}/left")).exists() {
            self.run(&format!("show-left {node}"))?;
        }
        let place = self.folder.join(node.to_string());
        let url = format!("host={} port=5433 user=postgres dbname={database}", place.display());
        connect(&url).await
    }

    /// Ends what shows it.
    pub fn remove_left(&mut self, node: u8) -> Result<()> {
        self.run(&format!("remove-left {node}"))
    }

    /// Waits until a node other than `old` is the leader.
    pub async fn leader_after(&self, old: Option<u8>) -> Result<u8> {
        let since = Stopwatch::start();
        loop {
            for node in NODES.into_iter().filter(|node| Some(*node) != old) {
                if self.ask(node, "/primary").is_ok_and(|(status, _)| status == 200) {
                    return Ok(node);
                }
            }
            ensure!(since.elapsed() < PATIENCE, "no node leads:\n{}", self.logs());
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until two nodes follow the third one, and commits wait for one of them if they are to.
    /// Returns how many times a leader was promoted until now.
    pub async fn settled(&self, is_synchronous: bool) -> Result<u64> {
        let since = Stopwatch::start();
        loop {
            let leader = self.leader_after(None).await?;
            if let Ok(states) = self.states(leader) {
                let roles: Vec<&str> = states.values().map(|state| state.role.as_str()).collect();
                let follows = |role: &&&str| ["replica", "sync_standby"].contains(role);
                let followers = roles.iter().filter(follows).count();
                let is_safe = roles.contains(&"sync_standby") || !is_synchronous;
                let timeline = states.values().filter_map(|state| state.timeline).max();
                let agree = states.values().all(|state| state.timeline == timeline);
                if followers == 2 && is_safe && agree {
                    return Ok(timeline.context("the leader has a timeline")? - 1);
                }
            }
            ensure!(since.elapsed() < PATIENCE, "three nodes do not settle:\n{}", self.logs());
            sleep(Duration::from_millis(200)).await;
        }
    }

    fn states(&self, node: u8) -> Result<BTreeMap<String, State>> {
        let (_, body) = self.ask(node, "/cluster")?;
        let cluster: Value = serde_json::from_str(&body)?;
        let members = cluster["members"].as_array().context("it has members")?;
        let state = |member: &Value| {
            let text = |name: &str| member[name].as_str().unwrap_or_default().to_owned();
            let is_running = text("state") == "running";
            let role = if is_running { text("role") } else { String::new() };
            (text("name"), State { role, timeline: member["timeline"].as_u64() })
        };
        Ok(members.iter().map(state).collect())
    }

    fn ask(&self, node: u8, path: &str) -> Result<(u16, String)> {
        let address = format!("{}:8008", self.address(node));
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        let (status, _, body) = http::ask(&address, request.as_bytes())?;
        Ok((status, body))
    }

    fn logs(&self) -> String {
        let log = |node: u8| {
            let path = self.folder.join(format!("{node}/patroni.log"));
            let log = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            format!("node {node}:\n{}\n", lines[lines.len().saturating_sub(20)..].join("\n"))
        };
        NODES.map(log).concat()
    }

    fn run(&mut self, command: &str) -> Result<()> {
        self.supervisor.run(command).with_context(|| format!("`{command}` fails"))
    }
}

/// One of those of measurements between networks (RFC 2544), which nobody uses: another one for
/// each test of this process, and another first one for each process.
fn unused_network() -> String {
    static NUMBER: AtomicU8 = AtomicU8::new(0);
    let first = process::id() % 256;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("198.18.{}", (first * 16 + u32::from(number)) % 256)
}

/// What Patroni says of a node.
struct State {
    /// Empty, unless it runs.
    role: String,
    timeline: Option<u64>,
}

/// What all nodes are told by etcd, as the page has it.
fn shared_settings(is_synchronous: bool) -> Result<String> {
    let mut settings = book::block(PAGE, "yaml")?;
    if !is_synchronous {
        settings = settings
            .replace("synchronous_mode: true", "synchronous_mode: false")
            .replace("synchronous_mode_strict: true", "synchronous_mode_strict: false")
            .replace("synchronous_commit: remote_apply", "synchronous_commit: local");
    }
    let indented: Vec<String> = settings.lines().map(|line| format!("    {line}")).collect();
    Ok(indented.join("\n"))
}
