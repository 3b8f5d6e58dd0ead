//! The commands of docs/guides/inbox.md work as they stand.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::book;
use mailroom_tests::postgres::Database;

use super::Dev;

#[test]
fn the_documents_commands_show_a_mail() -> Result<()> {
    let document = book::page("guides/inbox.md")?;
    let mut blocks = document.split("```bash\n").skip(1).map(str::trim_start);
    let start = blocks.next().context("a block that starts it")?;
    ensure!(start.starts_with("mailroom dev\n"), "{start}");
    let block = blocks.next().context("a block of commands")?;
    let commands = block.split("```").next().context("an end")?;
    let database = Database::create()?;
    let dev = Dev::start(database.url())?;
    let commands = commands.replace("127.0.0.1:8025", &dev.address);
    let output = Command::new("bash")
        .args(["-e", "-u", "-o", "pipefail", "-c", &commands])
        .current_dir(&dev.folder)
        .output()?;
    let said = String::from_utf8(output.stdout)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}{errors}");
    ensure!(said.contains("\"subject\":\"Activate your Example account\""), "{said}{errors}");
    Ok(())
}
