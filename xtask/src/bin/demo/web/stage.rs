//! The program that starts, watches and ends every part but PostgreSQL.

use std::env;
use std::io::IsTerminal;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::{Folders, Roles, path};

/// How long the parts may take to end. The stage itself gives each of them ten seconds.
const PATIENCE: Duration = Duration::from_secs(45);

pub(crate) struct Stage {
    child: Child,
    /// It runs until this is closed, however this process ends.
    input: Option<ChildStdin>,
}

impl Stage {
    pub(crate) async fn start(folders: &Folders, roles: &Roles) -> Result<Self> {
        let site = path("MAILROOM_DEMO_SITE")?;
        let mut setting = roles.described()?;
        setting["site"] = json!(site);
        setting["folder"] = json!(folders.private.path());
        setting["objects"] = json!(folders.objects.path());
        setting["mailroom"] = json!(path("MAILROOM_TEST_PROGRAM")?);
        setting["workerd"] = json!(path("MAILROOM_DEMO_WORKERD")?);
        setting["open"] = json!(std::io::stdout().is_terminal() && env::var_os("CI").is_none());
        let mut command = Command::new("node");
        command.arg(site.join("node/stage.js")).stdin(Stdio::piped());
        // Ctrl-C is for this process, which then has the stage end its parts in order.
        let child = command.process_group(0).spawn();
        let mut child = child.context("cannot run node: install Node.js 20.19 or later")?;
        let mut input = child.stdin.take().expect("the input is piped");
        input.write_all(format!("{setting}\n").as_bytes()).await.context("the stage does not listen")?;
        Ok(Self { child, input: Some(input) })
    }

    /// Waits until it ends by itself, and returns whether it did so well.
    pub(crate) async fn wait(&mut self) -> Result<bool> {
        Ok(self.child.wait().await?.success())
    }

    /// Has it end every part, and waits for that.
    pub(crate) async fn end(&mut self) -> Result<bool> {
        drop(self.input.take());
        timeout(PATIENCE, self.wait()).await.context("the parts do not end")?
    }
}
