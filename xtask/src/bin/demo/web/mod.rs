//! The web demonstration: PostgreSQL and its roles here, every other part started and watched by `web-demo/stage`.

mod folder;
mod roles;
mod stage;

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use mailroom_tests::postgres::Database;

use self::folder::Folder;
use self::roles::Roles;
use self::stage::Stage;
use crate::stop::Stop;

/// Runs until a signal comes, and returns whether all parts ran until then.
pub(crate) async fn run(stop: &mut Stop) -> Result<bool> {
    println!("  starting a throwaway PostgreSQL ...");
    let database = Database::create()?.migrate()?;
    let client = database.connect().await?;
    let roles = Roles::create(&database, &client).await?;
    println!("  starting the collector, the inbox, the origin and the edge ...");
    let folder = Folder::create()?;
    let mut stage = Stage::start(&folder, &roles).await?;
    let ended: Option<bool> = tokio::select! {
        () = stop.asked() => None,
        ended = stage.wait() => Some(ended?),
    };
    let well = if ended.is_some() {
        eprintln!("error: the demonstration ended by itself");
        false
    } else {
        println!("\n  ending every part ...");
        tokio::select! {
            // Whatever the stage has started ends with it.
            () = stop.asked() => false,
            ended = stage.end() => ended?,
        }
    };
    drop(client);
    drop(database);
    roles.drop_all().await?;
    Ok(well)
}

/// A path that `cargo xtask demo` passes on.
fn path(variable: &str) -> Result<PathBuf> {
    let value = env::var_os(variable);
    value
        .map(PathBuf::from)
        .with_context(|| format!("{variable} is not set: start this by `cargo xtask demo`"))
}
