//! A PostgreSQL server for as long as this process lives.
//!
//! It listens on loopback, where every user of the machine can connect, so that it has a password.
//! A shell owns it and deletes it when this process ends, also when that is killed.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use mailroom_local_postgres::{Account, Installation};
use zeroize::Zeroizing;

use super::DevError;

/// The first of the ports that are tried, so that it is usually the same.
const PORT: u16 = 54_320;

/// The oldest version that Mailroom works with.
const OLDEST: u32 = 14;

/// What helps where no server can be started.
const ADVICE: &str = "install PostgreSQL 14 or newer (`apt install postgresql`, `brew install \
                      postgresql`), or set MAILROOM_DATABASE_URL to a database of your own, such \
                      as that of `docker run -e POSTGRES_PASSWORD=dev -p 127.0.0.1:5432:5432 \
                      postgres`";

/// A running server. Its data are deleted when it is dropped.
pub(crate) struct Server {
    /// Of a superuser. It holds the password.
    pub(crate) url: Zeroizing<String>,
    shell: Child,
    input: Option<ChildStdin>,
}

impl Server {
    /// Makes and starts one; returns when it takes connections.
    ///
    /// # Errors
    /// Why there is none, and what helps.
    pub(crate) fn start(password: &str) -> Result<Self, DevError> {
        let mut installed = Installation::on_this_machine().into_iter();
        let suitable = installed.find(|found| found.major >= OLDEST);
        let Installation { programs, .. } = suitable.ok_or_else(|| {
            let fault = "MAILROOM_DATABASE_URL is not set, and no PostgreSQL is installed here";
            DevError(format!("{fault}; {ADVICE}"))
        })?;
        let account = account_to_change_to()?;
        let folder = private_folder().map_err(because("a folder cannot be made"))?;
        let port = free_port();
        let port = port.ok_or_else(|| DevError("no port is free for PostgreSQL".to_owned()))?;
        let started = start(&programs, &folder, account, password, port);
        let (shell, input) = started.inspect_err(|_| {
            // The shell may not have come so far.
            fs::remove_dir_all(&folder).ok();
        })?;
        let url = format!("postgresql://postgres:{password}@127.0.0.1:{port}/postgres");
        Ok(Self { url: Zeroizing::new(url), shell, input: Some(input) })
    }
}

/// The account that the server runs under; `None` unless this process is root's.
fn account_to_change_to() -> Result<Option<Account>, DevError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    Account::unprivileged().ok().flatten().map(Some).ok_or_else(|| {
        let fault = "PostgreSQL refuses to run as root, and there is neither a user `postgres` nor \
                     `nobody`; run `mailroom dev` as another user";
        DevError(fault.to_owned())
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        self.shell.wait().ok();
    }
}

fn start(
    programs: &Path,
    folder: &Path,
    account: Option<Account>,
    password: &str,
    port: u16,
) -> Result<(Child, ChildStdin), DevError> {
    let file = folder.join("password");
    let written = || -> io::Result<()> {
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?;
        new.write_all(password.as_bytes())?;
        account.map_or(Ok(()), |account| {
            account.own(&file)?;
            account.own(folder)
        })
    };
    written().map_err(because("the folder of PostgreSQL cannot be written"))?;
    let mut command = Command::new("sh");
    command.arg("-c").arg(include_str!("postgres.sh")).arg("sh");
    command.args([programs, folder]).arg(port.to_string());
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    // In a process group of its own it does not get the Ctrl-C that is meant for this process,
    // which needs the database until its own end.
    command.env("LC_ALL", "C").current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(account) = account {
        account.run(&mut command);
    }
    let mut shell = command.spawn().map_err(because("sh cannot be run"))?;
    let input = shell.stdin.take().expect("the input is piped");
    let output = shell.stdout.take().expect("the output is piped");
    let mut said = String::new();
    for line in BufReader::new(output).lines() {
        match line.map_err(because("PostgreSQL does not start"))?.as_str() {
            "ready" => return Ok((shell, input)),
            line => said = format!("{said}\n{line}"),
        }
    }
    shell.wait().ok();
    Err(DevError(format!("PostgreSQL does not start; {ADVICE}. It says:{said}")))
}

/// A new folder of mode 0700, where every user of the machine can reach it.
fn private_folder() -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let folder = PathBuf::from(format!("/tmp/mailroom-dev-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 100 => number += 1,
            made => return made.map(|()| folder),
        }
    }
}

fn free_port() -> Option<u16> {
    (PORT..PORT + 100).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
}

fn because(what: &str) -> impl FnOnce(io::Error) -> DevError {
    move |error| DevError(format!("{what}: {error}"))
}
