//! One throwaway server.

use std::fmt::{self, Write as _};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mailroom_local_postgres::{Account, Installation};

use super::installation::Wanted;
use super::supervisor::Supervisor;
use super::{account, folder};
use crate::port;

/// Everybody may do everything; a server that needs more says so with [`Builder::hba`].
const OPEN_HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";

/// What every server of the tests is set to.
///
/// Only safety against a crash of the machine is given up: what a killed or an immediately stopped
/// server has committed is still there when it starts again. Compiling queries takes a seventh of
/// the time of the tests, whose sessions are short. A statement that never ends is an error of the
/// test that waits for it: the suite would stand still, and nobody would know in which test.
const SETTINGS: [(&str, &str); 7] = [
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("jit", "off"),
    ("listen_addresses", ""),
    ("max_connections", "300"),
    ("max_wal_size", "2GB"),
    ("statement_timeout", "10min"),
];

/// The port in the socket's name where nothing listens on TCP;
/// every server has a folder of its own.
const SOCKET_PORT: u16 = 5432;

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Ends the connections, rolls back what is open, writes a checkpoint.
    Fast,
    /// Ends at once, as in a crash; the next start recovers.
    Immediate,
}

impl fmt::Display for Shutdown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Fast => "fast",
            Self::Immediate => "immediate",
        })
    }
}

/// A server with its data, started for one test or one process.
///
/// It is stopped and its data deleted when the value is dropped, and also when the process ends in
/// any other way. The superuser is `postgres`.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    installation: Installation,
    port: u16,
    supervisor: Supervisor,
}

impl Cluster {
    /// Starts a server with the default settings.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// Settings for a server to start.
    pub fn builder() -> Builder {
        Builder {
            wanted: None,
            settings: Vec::new(),
            hba: OPEN_HBA.to_owned(),
            files: Vec::new(),
            tcp: false,
            disk: None,
            durable: false,
        }
    }

    /// The URL of a database of this server by its socket, for the superuser.
    /// The database need not exist.
    pub fn url(&self, database: &str) -> String {
        let socket = self.folder.to_string_lossy().replace('/', "%2F");
        format!("postgresql://postgres@{socket}:{}/{database}", self.port)
    }

    /// The folder of the socket; what libpq calls `host`.
    pub fn socket_dir(&self) -> &Path {
        &self.folder
    }

    /// The folder of the data.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The folder of the small disk that was asked for, as the server sees it.
    pub fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// The port of the socket and, if it was asked for, of TCP on 127.0.0.1. It stays when the
    /// server starts again.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The version of the server and where its programs are.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The process id of the running server.
    pub fn process_id(&self) -> Result<u32> {
        let file = self.data_dir().join("postmaster.pid");
        let text = fs::read_to_string(file).context("the server is not running")?;
        let first = text.lines().next().unwrap_or_default();
        first.trim().parse().with_context(|| format!("`{first}` is not a process id"))
    }

    /// What the server has logged since it was made.
    pub fn log(&self) -> String {
        fs::read(self.folder.join("log"))
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// Stops the server and keeps its data.
    pub fn stop(&mut self, how: Shutdown) -> Result<()> {
        self.supervisor.run(&format!("stop {how}")).context("the PostgreSQL server does not stop")
    }

    /// Starts the stopped server, and returns when it takes connections.
    pub fn start_again(&mut self) -> Result<()> {
        let started = self.supervisor.run("start");
        started.with_context(|| {
            format!("the PostgreSQL server does not start; its log says:\n{}", self.log())
        })
    }
}

/// What a server is to be like; made by [`Cluster::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    wanted: Option<Wanted>,
    settings: Vec<(String, String)>,
    hba: String,
    files: Vec<(String, String)>,
    tcp: bool,
    disk: Option<u32>,
    durable: bool,
}

impl Builder {
    /// Which PostgreSQL to run, instead of what `MAILROOM_TEST_POSTGRES` says.
    #[must_use]
    pub fn version(mut self, wanted: Wanted) -> Self {
        self.wanted = Some(wanted);
        self
    }

    /// A line of `postgresql.conf`; later ones overrule earlier ones and the defaults.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The whole of `pg_hba.conf`, instead of letting everybody in.
    #[must_use]
    pub fn hba(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.hba);
        if !lines.ends_with('\n') {
            self.hba.push('\n');
        }
        self
    }

    /// A file in the folder of the data, readable for the server alone; a setting can name it.
    #[must_use]
    pub fn file(mut self, name: &str, content: &str) -> Self {
        self.files.push((name.to_owned(), content.to_owned()));
        self
    }

    /// With a disk of so many megabytes for tablespaces, at [`Cluster::disk`].
    /// Only root can make one.
    #[must_use]
    pub fn disk(mut self, megabytes: u32) -> Self {
        self.disk = Some(megabytes);
        self
    }

    /// With its data on the disk and all of it safe there, as installations have it,
    /// for what is measured.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self.setting("fsync", "on")
            .setting("full_page_writes", "on")
            .setting("jit", "on")
            .setting("max_wal_size", "4GB")
    }

    /// Also listens on a free TCP port of 127.0.0.1.
    #[must_use]
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Listens on TCP and offers TLS there, with a certificate (chain) and its private key in PEM.
    #[must_use]
    pub fn tls(self, certificate: &str, private_key: &str) -> Self {
        self.tcp()
            .file("server.crt", certificate)
            .file("server.key", private_key)
            .setting("ssl", "on")
    }

    /// Makes the server and returns when it takes connections.
    pub fn start(self) -> Result<Cluster> {
        let wanted = match &self.wanted {
            Some(wanted) => wanted.clone(),
            None => Wanted::from_environment()?,
        };
        let installation = wanted.find()?;
        let folder = folder::create()?;
        self.start_in(folder.clone(), installation).inspect_err(|_| {
            // Not left to the supervisor, which may not have been reached.
            folder::remove(&folder);
        })
    }

    fn start_in(self, folder: PathBuf, installation: Installation) -> Result<Cluster> {
        let account = account::to_change_to(&folder)?;
        let programs = match account {
            Some(account) => {
                account.own(&folder)?;
                reachable_programs(&installation, &folder, account)?
            }
            None => installation.programs.clone(),
        };
        if !self.durable {
            folder::put_data_into_memory(&folder, account)?;
        }
        let port = if self.tcp { port::free()? } else { SOCKET_PORT };
        let mut supervisor = Supervisor::start(&programs, &folder, account, self.disk)?;
        supervisor.run("init").context("initdb cannot make a database cluster")?;

        let data = folder.join("data");
        let mut files = self.files.clone();
        files.push(("pg_hba.conf".to_owned(), self.hba.clone()));
        let defaults = fs::read_to_string(data.join("postgresql.conf"))?;
        files.push(("postgresql.conf".to_owned(), defaults + &self.configuration(&folder, port)));
        for (name, content) in files {
            write_private(&data.join(name), &content, account)?;
        }
        let mut cluster = Cluster { folder, installation, port, supervisor };
        cluster.start_again()?;
        Ok(cluster)
    }

    fn configuration(&self, socket_folder: &Path, port: u16) -> String {
        let mut text = String::from("\n# set by the tests\n");
        let mut set = |name: &str, value: &str| {
            writeln!(text, "{name} = '{}'", value.replace('\'', "''"))
                .expect("a string takes all that is written");
        };
        for (name, value) in SETTINGS {
            set(name, value);
        }
        set("unix_socket_directories", &socket_folder.to_string_lossy());
        set("port", &port.to_string());
        if self.tcp {
            set("listen_addresses", "127.0.0.1");
        }
        for (name, value) in &self.settings {
            set(name, value);
        }
        text
    }
}

pub(super) fn write_private(file: &Path, content: &str, account: Option<Account>) -> Result<()> {
    let written = || {
        fs::write(file, content)?;
        fs::set_permissions(file, Permissions::from_mode(0o600))?;
        account.map_or(Ok(()), |account| account.own(file))
    };
    written().with_context(|| format!("cannot write {}", file.display()))
}

/// The folder of the programs, copied next to the data if `account` cannot reach it where it is.
fn reachable_programs(
    installation: &Installation,
    folder: &Path,
    account: Account,
) -> Result<PathBuf> {
    if folder::is_reachable(&installation.programs) {
        return Ok(installation.programs.clone());
    }
    let root = installation
        .programs
        .parent()
        .context("the programs of PostgreSQL lie in the root folder")?;
    let copy = folder.join("postgresql");
    fs::create_dir(&copy)?;
    account.own(&copy)?;
    for part in ["bin", "lib", "share"] {
        folder::link_or_copy(&root.join(part), &copy.join(part), account)
            .with_context(|| format!("cannot copy PostgreSQL from {}", root.display()))?;
    }
    Ok(copy.join("bin"))
}
