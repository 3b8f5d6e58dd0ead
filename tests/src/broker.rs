//! A real broker: Debian's nats-server.

use std::ffi::OsString;
use std::fs::{self, DirEntry, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::collector::wait_until;
use crate::machine::skip;
use crate::port;
use crate::proxy::Proxy;
use crate::small_disk::SmallDisk;
use crate::standstill::wait_until_stopped;

/// Where Debian has it, which is not in the `PATH` of everybody.
const PROGRAM: &str = "/usr/sbin/nats-server";

/// Before the name of a server of a cluster.
const NAME: &str = "--name";

/// A NATS server with `JetStream`, killed when this is dropped.
#[derive(Debug)]
pub struct Nats {
    child: Option<Child>,
    folder: TempDir,
    port: u16,
    arguments: Vec<String>,
    disk: Option<SmallDisk>,
}

/// The ways between the servers of a cluster.
#[derive(Debug)]
pub struct Ways(Vec<Way>);

#[derive(Debug)]
struct Way {
    ends: [usize; 2],
    proxy: Proxy,
}

impl Ways {
    /// Lets nothing pass between a server and the others, who are not told. Clients reach all.
    pub fn isolate(&self, place: usize) {
        self.0.iter().filter(|way| way.ends.contains(&place)).for_each(|way| way.proxy.stall());
    }

    /// Lets everything pass again, also what was written meanwhile.
    pub fn heal(&self) {
        self.0.iter().for_each(|way| way.proxy.resume());
    }
}

impl Nats {
    /// Starts one; nothing if this machine has none, and then the calling test is skipped.
    pub fn start(arguments: &[&str]) -> Result<Option<Self>> {
        let Some(mut nats) = Self::reserve(arguments)? else { return Ok(None) };
        nats.run()?;
        Ok(Some(nats))
    }

    /// Starts one that has a small disk to store messages on.
    pub fn on_small_disk(megabytes: u32) -> Result<Option<Self>> {
        let Some(mut nats) = Self::reserve(&[])? else { return Ok(None) };
        nats.disk = SmallDisk::mount(nats.folder.path(), megabytes)?;
        if nats.disk.is_none() {
            return Ok(None);
        }
        nats.run()?;
        Ok(Some(nats))
    }

    /// Its small disk.
    pub fn disk(&self) -> Result<&SmallDisk> {
        self.disk.as_ref().context("it has no small disk")
    }

    /// Starts a cluster of so many, with the ways between them.
    pub fn cluster(count: usize) -> Result<Option<(Vec<Self>, Ways)>> {
        let ports = (0..count).map(|_| port::free()).collect::<Result<Vec<_>>>()?;
        let route = |port: u16| format!("nats://127.0.0.1:{port}");
        let (mut nodes, mut ways) = (Vec::new(), Vec::new());
        for (place, &port) in ports.iter().enumerate() {
            // Each one connects to those before it, and none looks for another way.
            let mut routes = vec![route(port)];
            for (other, &its_port) in ports[..place].iter().enumerate() {
                let proxy = Proxy::start(its_port)?;
                routes.push(route(proxy.port()));
                ways.push(Way { ends: [other, place], proxy });
            }
            let name = format!("node-{place}");
            let (listen, routes) = (route(port), routes.join(","));
            let arguments = [
                [NAME, &name, "--cluster_name", "test"],
                ["--cluster", &listen, "--cluster_advertise", "127.0.0.1:1"],
            ];
            let arguments = [&arguments.concat()[..], &["--routes", &routes]].concat();
            let Some(mut node) = Self::reserve(&arguments)? else { return Ok(None) };
            node.run()?;
            nodes.push(node);
        }
        Ok(Some((nodes, Ways(ways))))
    }

    /// Finds a port for one that is started later.
    pub fn reserve(arguments: &[&str]) -> Result<Option<Self>> {
        if !Path::new(PROGRAM).exists() {
            skip("there is no nats-server; install nats-server");
            return Ok(None);
        }
        let port = port::free()?;
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Ok(Some(Self { child: None, folder: tempfile::tempdir()?, port, arguments, disk: None }))
    }

    /// Names what it is started with from now on.
    pub fn set_arguments(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    }

    /// Starts it, with what it had stored before.
    pub fn run(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log_file())?;
        let program = self.disk.as_ref().map(|disk| disk.enter(PROGRAM));
        let child = program
            .unwrap_or_else(|| Command::new(PROGRAM))
            .args(["--addr", "127.0.0.1", "--port", &self.port.to_string(), "--jetstream"])
            .arg("--store_dir")
            .arg(self.folder.path())
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        self.child = Some(child);
        let port = self.port;
        wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())
            .with_context(|| format!("nats-server does not start:\n{}", self.log()))
    }

    /// Ends it as the kernel does when memory runs out.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Puts an empty server in its place, as after its disk was lost.
    pub fn replace(&mut self) -> Result<()> {
        self.kill()?;
        self.folder = tempfile::tempdir()?;
        self.run()
    }

    /// Ends it in order, so that it writes all that it knows.
    pub fn stop(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        if let Some(mut child) = self.child.take() {
            child.wait()?;
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
        Ok(kill_process(Pid::from_child(child), signal)?)
    }

    /// Its name in its cluster.
    pub fn name(&self) -> Option<&str> {
        self.arguments.iter().skip_while(|word| *word != NAME).nth(1).map(String::as_str)
    }

    /// What it has stored of the messages of a stream, by name of file, without what it knows of
    /// consumers.
    pub fn copy_of_messages(&self, stream: &str) -> Result<Vec<(OsString, Vec<u8>)>> {
        let read = |entry: std::io::Result<DirEntry>| {
            let entry = entry?;
            Ok((entry.file_name(), fs::read(entry.path())?))
        };
        fs::read_dir(self.messages(stream))?.map(read).collect()
    }

    /// Lets it have these messages of a stream from its next start on, and no others.
    pub fn replace_messages(&self, stream: &str, by: &[(OsString, Vec<u8>)]) -> Result<()> {
        fs::remove_dir_all(self.messages(stream))?;
        fs::create_dir(self.messages(stream))?;
        for (name, content) in by {
            fs::write(self.messages(stream).join(name), content)?;
        }
        Ok(())
    }

    fn messages(&self, stream: &str) -> PathBuf {
        self.folder.path().join("jetstream/$G/streams").join(stream).join("msgs")
    }

    /// Where it is, without TLS.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its port at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it answers to a request of its own, such as `STREAM.INFO.mailroom`, as JSON: for a test
    /// that has failed, which is to depend on nothing of what it tests.
    pub fn ask(&self, request: &str, body: &Value) -> Result<Value> {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", self.port))?);
        stream.get_ref().set_read_timeout(Some(Duration::from_secs(10)))?;
        let body = body.to_string();
        let length = body.len();
        write!(
            stream.get_mut(),
            "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\n\
             PUB $JS.API.{request} answer {length}\r\n{body}\r\n"
        )?;
        loop {
            let mut line = String::new();
            ensure!(stream.read_line(&mut line)? > 0, "nats-server ends the connection");
            if line.starts_with("MSG ") {
                let length = line.trim_end().rsplit(' ').next().unwrap_or_default().parse()?;
                let mut answer = vec![0; length];
                stream.read_exact(&mut answer)?;
                return Ok(serde_json::from_slice(&answer)?);
            }
        }
    }

    /// Publishes a message with headers that no client writes.
    pub fn publish_odd(&self, subject: &str, headers: &str, text: &str) -> Result<()> {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", self.port))?);
        stream.get_ref().set_read_timeout(Some(Duration::from_secs(60)))?;
        let (head, length) = (headers.len(), headers.len() + text.len());
        write!(
            stream.get_mut(),
            "CONNECT {{\"verbose\":false,\"headers\":true}}\r\n\
             HPUB {subject} {head} {length}\r\n{headers}{text}\r\nPING\r\n"
        )?;
        let mut line = String::new();
        while !line.starts_with("PONG") {
            line.clear();
            ensure!(stream.read_line(&mut line)? > 0, "nats-server ends the connection");
            ensure!(!line.starts_with("-ERR"), "{line}");
        }
        Ok(())
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill().ok();
    }
}
