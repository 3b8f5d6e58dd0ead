//! Folders in memory, where nothing waits for a disk.

use std::fs;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};

/// Memory as a file system, where the operating system has it.
const SHARED_MEMORY: &str = "/dev/shm";

/// A folder in memory that this process can make files in,
/// if that many bytes fit in it and are to be had.
pub fn folder_with(bytes: u64) -> Option<&'static Path> {
    let fits = statvfs(SHARED_MEMORY).is_ok_and(|found| found.f_bavail * found.f_frsize >= bytes);
    let takes_files = access(SHARED_MEMORY, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    (fits && takes_files && available()? >= bytes).then_some(Path::new(SHARED_MEMORY))
}

/// How many bytes of memory programs can still get. The file system may be larger than that.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_not_to_be_had() {
        assert_eq!(folder_with(1 << 60), None);
        if let Some(folder) = folder_with(1) {
            assert!(folder.is_dir());
        }
    }
}
