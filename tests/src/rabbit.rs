//! Another real broker: Debian's rabbitmq-server, with folders, ports and a name of its own.

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::machine::skip;
use crate::port;
use crate::small_disk::SmallDisk;
use crate::standstill::{wait_until_ended, wait_until_stopped};

/// Where Debian has its programs. Those in `/usr/sbin` change to a user of their own.
const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";

/// The folder of its messages.
const STORED: &str = "stored";

/// How long a machine that is busy may take to start one.
const STARTING: Duration = Duration::from_secs(600);

/// How much of its log a failed test shows.
const LAST_LINES: usize = 200;

/// A RabbitMQ server, killed when this is dropped.
#[derive(Debug)]
pub struct Rabbit {
    child: Option<Child>,
    folder: TempDir,
    port: u16,
    names: u16,
    distribution: u16,
    disk: Option<SmallDisk>,
}

impl Rabbit {
    /// Starts one; nothing if this machine has none, and then the calling test is skipped.
    pub fn start() -> Result<Option<Self>> {
        let Some(mut rabbit) = Self::reserve()? else { return Ok(None) };
        rabbit.run()?;
        Ok(Some(rabbit))
    }

    /// One that all tests share which run at a time: each takes a queue of its own.
    pub fn shared() -> Result<Option<Arc<Self>>> {
        static SHARED: Mutex<Weak<Rabbit>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(Some(running));
        }
        let started = Self::start()?.map(Arc::new);
        *shared = started.as_ref().map_or_else(Weak::new, Arc::downgrade);
        Ok(started)
    }

    /// Starts one that has a small disk to store messages on.
    pub fn on_small_disk(megabytes: u32) -> Result<Option<Self>> {
        let Some(mut rabbit) = Self::reserve()? else { return Ok(None) };
        fs::create_dir(rabbit.path(STORED))?;
        rabbit.disk = SmallDisk::mount(&rabbit.path(STORED), megabytes)?;
        if rabbit.disk.is_none() {
            return Ok(None);
        }
        rabbit.run()?;
        Ok(Some(rabbit))
    }

    /// Its small disk.
    pub fn disk(&self) -> Result<&SmallDisk> {
        self.disk.as_ref().context("it has no small disk")
    }

    /// Finds ports for one that is started later.
    pub fn reserve() -> Result<Option<Self>> {
        if !Path::new(PROGRAMS).join("rabbitmq-server").exists() {
            skip("there is no rabbitmq-server; install rabbitmq-server");
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let (port, names, distribution) = (port::free()?, port::free()?, port::free()?);
        let rabbit = Self { child: None, folder, port, names, distribution, disk: None };
        fs::write(rabbit.path("plugins"), "[].")?;
        rabbit.configure(&format!("listeners.tcp.1 = 127.0.0.1:{port}\n"))?;
        Ok(Some(rabbit))
    }

    /// Writes how it is started from now on: its listeners, and further lines.
    pub fn configure(&self, lines: &str) -> Result<()> {
        // The disk of a test machine may be fuller than the broker likes it.
        let lines = format!("{lines}disk_free_limit.absolute = 1MB\n");
        Ok(fs::write(self.path("rabbitmq.conf"), lines)?)
    }

    /// Starts it, with what it had stored before.
    pub fn run(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.path("output"))?;
        let mut command = self.command("rabbitmq-server");
        // Its schedulers would look for work all the time, beside those of other tests.
        let thrifty = "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none";
        command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", thrifty);
        command.stdout(log.try_clone()?).stderr(log).process_group(0);
        self.child = Some(command.spawn()?);
        let (begin, port) = (Instant::now(), self.port);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let has_ended = self
                .child
                .as_mut()
                .is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            if has_ended || begin.elapsed() > STARTING {
                bail!("rabbitmq-server does not start:\n{}", self.log());
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Ends it as the kernel does when memory runs out.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            kill_process_group(Pid::from_child(&child), Signal::KILL)?;
            child.wait()?;
            // That was a script, and the server is its child.
            wait_until_ended(child.id())?;
        }
        Ok(())
    }

    /// Lets it answer nothing, with its connections open.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        wait_until_stopped(self.child.as_ref().context("it does not run")?.id())
    }

    /// Lets it answer again, also what it was asked meanwhile.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("it does not run")?;
        Ok(kill_process_group(Pid::from_child(child), signal)?)
    }

    /// Runs a command of `rabbitmqctl`.
    pub fn control(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.command("rabbitmqctl");
        let node = self.node();
        let output = command.args(["--quiet", "--node", &node]).args(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let fault = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "rabbitmqctl {arguments:?}: {said}{fault}");
        Ok(said)
    }

    fn command(&self, program: &str) -> Command {
        let program = Path::new(PROGRAMS).join(program);
        let mut command = match &self.disk {
            Some(disk) => disk.enter(program),
            None => Command::new(program),
        };
        command.stdin(Stdio::null());
        command.env("HOME", self.folder.path()).env("RABBITMQ_NODENAME", self.node());
        command.env("ERL_EPMD_PORT", self.names.to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
        command.env("RABBITMQ_DIST_PORT", self.distribution.to_string());
        command.env("ERL_CRASH_DUMP_SECONDS", "0");
        for (variable, name) in [
            ("RABBITMQ_MNESIA_BASE", STORED),
            ("RABBITMQ_LOG_BASE", "logs"),
            ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
            ("RABBITMQ_CONF_ENV_FILE", "none"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "plugins"),
            ("RABBITMQ_PID_FILE", "pid"),
        ] {
            command.env(variable, self.path(name));
        }
        command
    }

    fn node(&self) -> String {
        format!("broker{}@localhost", self.port)
    }

    /// Where it is, without TLS.
    pub fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.port)
    }

    /// Its port at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it has said on its standard streams, and the end of its log.
    pub fn log(&self) -> String {
        let mut log = fs::read_to_string(self.path("output")).unwrap_or_default();
        let name = format!("logs/{}.log", self.node());
        let lines = fs::read_to_string(self.path(&name)).unwrap_or_default();
        let last: Vec<&str> = lines.lines().rev().take(LAST_LINES).collect();
        for line in last.into_iter().rev() {
            log.push_str(line);
            log.push('\n');
        }
        log
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        self.kill().ok();
        // It has started a program that tells names of others, which does not end with it, and not
        // before that program has seen that the server has.
        let port = self.names.to_string();
        for _ in 0..30 {
            if TcpStream::connect(("127.0.0.1", self.names)).is_err() {
                return;
            }
            let mut end = Command::new("epmd");
            end.args(["-port", &port, "-kill"]).stdin(Stdio::null());
            end.stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
            sleep(Duration::from_millis(100));
        }
    }
}
