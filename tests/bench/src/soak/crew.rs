//! Collectors with their senders that come and go, and get new keys.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use mailroom_tests::collector::Collector;
use mailroom_tests::program;
use mailroom_tests::sending::Configuration;
use rustix::process::Signal;

/// How many collectors there are.
const PLACES: usize = 2;

/// How long a collector is the oldest one, until it ends and another one begins in its place.
const TERM: Duration = Duration::from_secs(60);

/// There is a new key each time so many collectors have ended. A key file has the last ones.
const ENDS_A_KEY: u32 = 5;
const KEYS: usize = 3;

pub(super) struct Crew {
    places: Arc<Mutex<Vec<Place>>>,
    end: Sender<()>,
    changing: JoinHandle<Result<u32>>,
}

/// What stays when a collector ends.
pub(super) struct Place {
    configuration: Configuration,
    collector: Option<Collector>,
}

impl Place {
    /// The numbers of its collector's process and of its sender's, while they run.
    pub(super) fn processes(&self) -> Option<(u32, u32)> {
        let collector = self.collector.as_ref()?;
        Some((collector.process(), collector.sender().ok()??))
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.configuration.path("journal")
    }
}

impl Crew {
    pub(super) fn start(database_url: &str, mail_server: u16) -> Result<Self> {
        let keys = Keys::new()?;
        let mut places = Vec::new();
        for _ in 0..PLACES {
            let configuration = Configuration::smtp(mail_server, "connections = 16")?;
            let collector = Some(begin(database_url, &configuration, &keys.file)?);
            places.push(Place { configuration, collector });
        }
        let places = Arc::new(Mutex::new(places));
        let (end, ends) = channel();
        let (shared, url) = (Arc::clone(&places), database_url.to_owned());
        let changing = thread::spawn(move || {
            let mut keys = keys;
            let mut ended = 0;
            while ends.recv_timeout(TERM) == Err(RecvTimeoutError::Timeout) {
                let at = usize::try_from(ended)? % PLACES;
                // Without the lock: an end takes a while.
                let old = lock(&shared)[at].collector.take();
                end_in_order(old)?;
                let mut places = lock(&shared);
                places[at].collector = Some(begin(&url, &places[at].configuration, &keys.file)?);
                ended += 1;
                if ended % ENDS_A_KEY == 0 {
                    keys.rotate()?;
                    for collector in places.iter().filter_map(|place| place.collector.as_ref()) {
                        collector.signal(Signal::HUP)?;
                    }
                }
            }
            for place in lock(&shared).iter_mut() {
                end_in_order(place.collector.take())?;
            }
            Ok(ended)
        });
        Ok(Self { places, end, changing })
    }

    /// Looks at those that run now.
    pub(super) fn each<R>(&self, look: impl FnMut(&Place) -> R) -> Vec<R> {
        lock(&self.places).iter().map(look).collect()
    }

    /// Whether collectors come and go.
    pub(super) fn is_changing(&self) -> bool {
        !self.changing.is_finished()
    }

    /// Ends all of them; returns how many ended before.
    pub(super) fn stop(self) -> Result<u32> {
        drop(self.end);
        self.changing.join().map_err(|_| anyhow!("a thread of this benchmark has failed"))?
    }
}

fn lock(places: &Mutex<Vec<Place>>) -> MutexGuard<'_, Vec<Place>> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

fn begin(url: &str, configuration: &Configuration, key_file: &Path) -> Result<Collector> {
    let mut command = program::mailroom()?;
    let program = program::path()?;
    let sender = format!("'{program}' send --config '{}'", configuration.file().display());
    command.args(["collect", "--adaptive", "--sender", &sender, "--key-file"]).arg(key_file);
    command.env("MAILROOM_DATABASE_URL", url);
    Collector::start(&mut command)
}

fn end_in_order(collector: Option<Collector>) -> Result<()> {
    let collector = collector.context("each place has a collector")?;
    // Before that a signal would end it like any program.
    collector.wait_until_it_collects()?;
    collector.stop().map(drop)
}

/// The key file of all collectors.
struct Keys {
    folder: tempfile::TempDir,
    file: PathBuf,
    last: Vec<String>,
}

impl Keys {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut keys = Self { file: folder.path().join("keys"), folder, last: Vec::new() };
        keys.rotate()?;
        Ok(keys)
    }

    /// From now on another key signs; the last ones still verify.
    fn rotate(&mut self) -> Result<()> {
        let key = [(); 2].map(|()| format!("{:032x}", fastrand::u128(..))).concat();
        self.last.insert(0, key);
        self.last.truncate(KEYS);
        let new = self.folder.path().join("new");
        fs::write(&new, self.last.join("\n"))?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
        fs::rename(&new, &self.file)?;
        Ok(())
    }
}
