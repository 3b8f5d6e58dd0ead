//! `mailroom init`: the files that an installation begins with.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mailroom_verifier_core::Version;

use super::{CommandError, Outcome, keygen, print};

#[derive(clap::Args)]
pub(crate) struct InitArguments {
    /// Folder for the files, which is made
    #[arg(value_name = "FOLDER", default_value = "mailroom")]
    folder: PathBuf,
}

/// Writes what is not there yet, and says what was written and the next commands.
pub(crate) fn run(arguments: &InitArguments) -> Outcome {
    let folder = &arguments.folder;
    let absolute = std::path::absolute(folder).map_err(unwritable(folder))?;
    let Some(path) = absolute.to_str().filter(|path| is_plain(path)) else {
        return Err(CommandError::Usage(format!(
            "{} must be a path of letters, digits and the signs / . _ -, because it is written \
             into a unit of systemd",
            absolute.display()
        )));
    };
    fs::create_dir_all(folder).map_err(unwritable(folder))?;
    // Before the key: a commit in between must not have it.
    write(&folder.join(".gitignore"), include_str!("gitignore"), 0o644)?;
    let key = folder.join("key");
    if is_there(&key) {
        said(&key, false)?;
    } else {
        write(&key, &keygen::new_key(Version::V2)?, 0o600)?;
    }
    write(&folder.join("send.toml"), include_str!("send.toml"), 0o644)?;
    make_folder(&folder.join("state"))?;
    let templates = folder.join("templates");
    let is_new = !is_there(&templates);
    if is_new {
        mailroom_sender::write_shipped(&templates)?;
    }
    said(&templates, is_new)?;
    let drop_in = include_str!("mailroom.conf").replace("FOLDER", path);
    write(&folder.join("mailroom.conf"), &drop_in, 0o644)?;
    write(&folder.join("database.js"), include_str!("database.js"), 0o644)?;
    print(next(folder))?;
    Ok(ExitCode::SUCCESS)
}

fn next(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "Change {folder}/send.toml. See the mails in the browser, until Ctrl-C, without \
         MAILROOM_DATABASE_URL, because mailroom dev keeps the database that it names for \
         itself:\n\
         \x20 mailroom dev --config {folder}/send.toml --links http://localhost:3000\n\
         Then set MAILROOM_DATABASE_URL, make the schema, check everything, and send:\n\
         \x20 mailroom migrate up --without-accounts\n\
         \x20 mailroom check --key-file {folder}/key --config {folder}/send.toml\n\
         \x20 mailroom collect --key-file {folder}/key \
         --sender 'mailroom send --config {folder}/send.toml'"
    )
}

/// What systemd and a shell read as one word, and as it is written.
fn is_plain(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
}

/// Also a link that leads nowhere is there: it is somebody's.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), CommandError> {
    let written = || -> io::Result<bool> {
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    };
    said(path, written().map_err(unwritable(path))?)
}

/// Makes a folder that only its owner can read.
fn make_folder(path: &Path) -> Result<(), CommandError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => said(path, true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => said(path, false),
        Err(error) => Err(unwritable(path)(error)),
    }
}

fn said(path: &Path, is_new: bool) -> Result<(), CommandError> {
    let outcome = if is_new { "written" } else { "is there already and was left as it is" };
    print(format_args!("{}: {outcome}", path.display())).map(drop)
}

fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> CommandError {
    CommandError::because(format!("{} cannot be written", path.display()))
}
