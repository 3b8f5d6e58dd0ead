//! What a sender can read of the collector, as the same user.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use anyhow::{Result, ensure};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use mailroom_tests::stopwatch::Stopwatch;
use rustix::process::geteuid;

/// A user without rights, as `nobody` is on most systems. Root reads everything.
const NOBODY: u32 = 65_534;

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_sender_reads_neither_the_environment_nor_the_memory_of_its_parent() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=1).await?;
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
    let (script, loot) = (folder.path().join("thief"), folder.path().join("loot"));
    // Of itself it reads the first, so that a folder without them is no proof.
    let text = format!(
        "#!/bin/sh\nfor process in $$ $PPID; do for file in environ mem auxv maps; do\n\
         if (exec 3< /proc/$process/$file) 2> /dev/null; then echo $file; fi\ndone; done > \
         {loot:?}.new\n\
         ulimit -c >> {loot:?}.new\nmv {loot:?}.new {loot:?}\nexec cat > /dev/null\n"
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let mut command = collector::command(database.url())?;
    command.arg("--sender").arg(&script);
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let collector = Collector::start(&mut command)?;
    let stopwatch = Stopwatch::start();
    while !loot.exists() {
        ensure!(
            stopwatch.elapsed().as_secs() < 120,
            "the sender was not started: {}",
            collector.log()
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(fs::read_to_string(&loot)?, "environ\nmem\nauxv\nmaps\n0\n");
    collector.stop()?;
    Ok(())
}
