//! The private folder of one server: its data, or a link to that, its socket and its log.

use std::env;
use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use mailroom_local_postgres::Account;

use crate::memory::folder_with;

/// The longest socket path that every system takes is 103 bytes; `/.s.PGSQL.5432.lock` is the
/// longest name below.
const LONGEST_PATH: usize = 103 - "/.s.PGSQL.5432.lock".len();

/// Makes an empty folder of mode 0700 with a short path.
///
/// The temporary folder of the environment is taken if every user can make files
/// there, `/tmp` otherwise.
pub(super) fn create() -> Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let name = format!("mailroom-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let preferred = env::temp_dir().join(&name);
        let short = preferred.as_os_str().len() <= LONGEST_PATH;
        let path = if short && is_shared(&env::temp_dir()) {
            preferred
        } else {
            Path::new("/tmp").join(name)
        };
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot make the folder {}", path.display()));
            }
        }
    }
}

/// What there must be of memory for the data of a server: far more than one test writes, for
/// several run at the same time.
const ENOUGH: u64 = 8 << 30;

/// Makes `data` in `folder` a link to an empty folder in memory, owned by `account`, if there is
/// plenty of it.
///
/// Every test makes and drops databases of some hundred files each. ext4 does not give the number
/// of a file away again for some seconds, and searches ever longer for one that it may: a quarter
/// of the processor's time, with two versions tested at once.
pub(super) fn put_data_into_memory(folder: &Path, account: Option<Account>) -> Result<()> {
    let memory = folder_with(ENOUGH).filter(|memory| is_shared(memory));
    let (Some(memory), Some(name)) = (memory, folder.file_name()) else { return Ok(()) };
    let data = memory.join(name);
    let made = || {
        DirBuilder::new().mode(0o700).create(&data)?;
        symlink(&data, folder.join("data"))?;
        account.map_or(Ok(()), |account| account.own(&data))
    };
    made().with_context(|| format!("cannot make the folder {}", data.display()))
}

/// Removes a folder, and its data where that is elsewhere.
pub(super) fn remove(folder: &Path) {
    if let Ok(data) = fs::read_link(folder.join("data")) {
        fs::remove_dir_all(data).ok();
    }
    fs::remove_dir_all(folder).ok();
}

/// Whether every user can reach `path`, which must be absolute.
pub(super) fn is_reachable(path: &Path) -> bool {
    path.ancestors().all(|part| fs::metadata(part).is_ok_and(|found| found.mode() & 0o001 != 0))
}

/// Copies a folder with everything below it to where `account` may read and remove it.
///
/// Files are linked where that is possible, so that many servers share one copy.
pub(super) fn link_or_copy(from: &Path, to: &Path, account: Account) -> Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, Permissions::from_mode(0o755))?;
    account.own(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let found = entry.metadata()?;
        if found.is_dir() {
            link_or_copy(&source, &target, account)?;
        } else if found.is_symlink() {
            symlink(fs::read_link(source)?, target)?;
        } else if found.mode() & 0o004 == 0 || fs::hard_link(&source, &target).is_err() {
            fs::copy(source, &target)?;
            fs::set_permissions(target, Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

fn is_shared(folder: &Path) -> bool {
    folder.is_absolute()
        && is_reachable(folder)
        && fs::metadata(folder).is_ok_and(|found| found.mode() & 0o1003 == 0o1003)
}
