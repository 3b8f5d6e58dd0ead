//! Databases made for one test each.

use std::env;
use std::fs;
use std::future::Future;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use super::cluster::Cluster;
use crate::collector::PATIENCE;
use crate::{program, tools};

/// The server that the tests of this process share, started by the first that needs it.
///
/// A static is never dropped: the server ends with the process.
static SHARED: Mutex<Option<Cluster>> = Mutex::new(None);

/// What [`Database::migrated`] copies, as long as there is a copy:
/// to migrate takes as long as to create.
static MIGRATED: Mutex<Weak<Database>> = Mutex::new(Weak::new());

/// A database with a name of its own, dropped with this value.
#[derive(Debug)]
pub struct Database {
    name: String,
    url: String,
    server_url: String,
    /// Kept for those that come, and dropped with the last of its copies.
    _original: Option<Arc<Database>>,
}

impl Database {
    /// Makes an empty database in the server of `MAILROOM_TEST_DATABASE_URL`,
    /// else in one that this process shares.
    ///
    /// Callable from asynchronous tests, which it blocks for the few hundredths
    /// of a second that it takes.
    pub fn create() -> Result<Self> {
        Self::create_on(&shared_server_url()?)
    }

    /// Makes an empty database in the server that a URL or keyword string leads to, as a user who
    /// may do that.
    pub fn create_on(server_url: &str) -> Result<Self> {
        let name = unused_name();
        execute(server_url, &format!("CREATE DATABASE {name}"))?;
        let url = with_database(server_url, &name);
        Ok(Self { name, url, server_url: server_url.to_owned(), _original: None })
    }

    /// [`Database::create`] with the schema that `mailroom migrate up` makes: a copy of one that it
    /// was run on.
    pub fn migrated() -> Result<Self> {
        let server_url = shared_server_url()?;
        let original = Self::original(&server_url)?;
        let name = unused_name();
        copy(&server_url, &original.name, &name)?;
        let url = with_database(&server_url, &name);
        Ok(Self { name, url, server_url, _original: Some(original) })
    }

    fn original(server_url: &str) -> Result<Arc<Self>> {
        let mut shared = MIGRATED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(original) = shared.upgrade() {
            return Ok(original);
        }
        let original = Arc::new(Self::create_on(server_url)?.migrate()?);
        *shared = Arc::downgrade(&original);
        Ok(original)
    }

    /// [`Database::create`], then the base schema alone, loaded as by psql:
    /// nothing records that it was.
    pub fn with_base_schema() -> Result<Self> {
        Self::create()?.load_base_schema()
    }

    /// Applies all migrations by `mailroom migrate up`, but the one that drops secrets.
    pub fn migrate(self) -> Result<Self> {
        self.migrate_with(&[])
    }

    /// The same with options, such as `--drop-secrets`.
    pub fn migrate_with(self, options: &[&str]) -> Result<Self> {
        let output = program::mailroom()?
            .args(["migrate", "up"])
            .args(options)
            .env("MAILROOM_DATABASE_URL", &self.url)
            .output()
            .context("cannot run mailroom")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "`mailroom migrate up` ended with {}: {complaint}",
            output.status
        );
        Ok(self)
    }

    /// Executes the first migration's file.
    pub fn load_base_schema(self) -> Result<Self> {
        execute(&self.url, &base_schema()?)?;
        Ok(self)
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database's URL, or keyword string if the server was given by one.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL with which another role connects.
    pub fn url_of(&self, role: &str) -> String {
        self.url.replacen("postgres@", &format!("{role}@"), 1)
    }

    /// Connects to the database; a task of the current runtime serves the connection.
    pub async fn connect(&self) -> Result<Client> {
        connect(&self.url).await
    }

    /// The same as another role.
    pub async fn connect_as(&self, role: &str) -> Result<Client> {
        connect(&self.url_of(role)).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A test may have stopped the server; its data goes away with it.
        execute(&self.server_url, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name))
            .ok();
    }
}

fn shared_server_url() -> Result<String> {
    if let Ok(url) = env::var("MAILROOM_TEST_DATABASE_URL") {
        return Ok(url);
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = match shared.take() {
        Some(cluster) => cluster,
        None => Cluster::start()?,
    };
    Ok(shared.insert(cluster).url("postgres"))
}

/// The time keeps names apart on a server that several machines use.
fn unused_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("mailroom_test_{}_{started}_{number}", process::id())
}

/// The same server and user, another database.
fn with_database(url: &str, name: &str) -> String {
    let Some(start) = url.find("://").map(|scheme| scheme + 3) else {
        // Of a keyword that is given twice, the last counts.
        return format!("{url} dbname={name}");
    };
    let authority_end = url[start..].find(['/', '?']).map_or(url.len(), |end| start + end);
    let parameters =
        url[authority_end..].find('?').map_or("", |found| &url[authority_end + found..]);
    format!("{}/{name}{parameters}", &url[..authority_end])
}

fn base_schema() -> Result<String> {
    let folder = tools::workspace().join("migrations");
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number =
            name.strip_suffix(".up.sql").and_then(|name| name.split('_').next()?.parse().ok());
        if number == Some(0_u64) {
            return fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()));
        }
    }
    Err(anyhow!("there is no migration 0 in {}", folder.display()))
}

/// Connects by a URL or by keywords.
pub async fn connect(url: &str) -> Result<Client> {
    let mut config: Config =
        url.parse().context("the URL of the test database has a form of no use")?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(60));
    }
    let (client, connection) =
        config.connect(NoTls).await.context("cannot connect to the test database")?;
    tokio::spawn(async move {
        // The client's next call reports why a connection ended.
        connection.await.ok();
    });
    Ok(client)
}

fn execute(url: &str, sql: &str) -> Result<()> {
    block_on(async move { Ok(connect(url).await?.batch_execute(sql).await?) })
}

/// Makes a database that is a copy of another one. On a busy machine a session of that, which has
/// ended, may still be there for longer than the server waits for its end.
fn copy(server_url: &str, original: &str, name: &str) -> Result<()> {
    let create = format!("CREATE DATABASE {name} TEMPLATE {original}");
    let is_in_use = |error: &anyhow::Error| {
        let server = error.downcast_ref::<tokio_postgres::Error>();
        server.is_some_and(|error| error.code() == Some(&SqlState::OBJECT_IN_USE))
    };
    let begin = Instant::now();
    loop {
        match execute(server_url, &create) {
            Err(error) if is_in_use(&error) && begin.elapsed() < PATIENCE => {}
            outcome => return outcome,
        }
    }
}

/// Runs to the end on a thread of its own, because the caller may be inside a runtime.
fn block_on<T: Send>(work: impl Future<Output = Result<T>> + Send) -> Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_replaced_and_the_rest_kept() {
        let replaced = |url| with_database(url, "x");
        assert_eq!(
            replaced("postgresql://u:p@h:5433/old?sslmode=disable"),
            "postgresql://u:p@h:5433/x?sslmode=disable"
        );
        assert_eq!(replaced("postgres://h?user=me"), "postgres://h/x?user=me");
        assert_eq!(replaced("postgres://%2Ftmp"), "postgres://%2Ftmp/x");
        assert_eq!(replaced("host=/tmp dbname=old"), "host=/tmp dbname=old dbname=x");
    }
}
