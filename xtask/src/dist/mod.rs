//! `cargo xtask dist`: what a release consists of, made into `target/dist/artefacts`, and tried as
//! an operator would: `cargo xtask dist --test`.
//!
//! The same sources are to give the same bytes, which `--reproduce` checks: times are those of the
//! commit (`SOURCE_DATE_EPOCH`), files are sorted, and no folder of this machine is in them.

mod archive;
mod binary;
mod deb;
mod edition;
mod image;
mod needs;
mod publish;
mod sbom;
mod stage;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use mailroom_tests::tools::{target_folder, workspace};

pub(crate) use binary::PROFILE;
pub(crate) use edition::Edition;

use crate::execute::{SILENCE, execute};

/// Makes what a release consists of into target/dist/artefacts: a static program for each
/// processor, archives, Debian packages, images, a bill of materials and checksums
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Options {
    /// The processors, by default both
    #[arg(long, value_name = "PROCESSOR", value_delimiter = ',')]
    processor: Vec<Processor>,

    /// The programs, by default both
    #[arg(long, value_name = "EDITION", value_delimiter = ',')]
    edition: Vec<Edition>,

    /// Pack this program, which runs here, in place of one that is built for a release
    #[arg(long, value_name = "FILE", conflicts_with_all = ["processor", "edition", "reproduce"])]
    program: Option<PathBuf>,

    /// Then build the programs a second time in another folder and compare the bytes
    #[arg(long)]
    reproduce: bool,

    /// Then install, run, upgrade and remove each in a fresh root
    #[arg(long)]
    test: bool,

    /// Build nothing: test what is there
    #[arg(long, requires = "test", conflicts_with_all = ["program", "reproduce"])]
    built: bool,

    /// Instead: what a registry would get of each crate and package, without publishing
    #[arg(long, conflicts_with_all = ["processor", "edition", "program", "reproduce", "test"])]
    dry_run: bool,

    /// Instead: build the programs alone, the usual one of which may have 10,000,000 bytes
    #[arg(long, conflicts_with_all = ["built", "dry_run", "program", "reproduce", "test"])]
    size: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Processor {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
}

impl Processor {
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-musl",
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// As Debian and images call it.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// As the kernel and qemu call it.
    pub(crate) fn kernel(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    fn is_native(self) -> bool {
        self.kernel() == std::env::consts::ARCH
    }
}

/// What all artefacts share.
pub(crate) struct Release {
    pub(crate) version: String,
    /// Seconds since the Unix epoch, of everything that has a time.
    pub(crate) epoch: u64,
    /// Where artefacts are put.
    pub(crate) folder: PathBuf,
}

impl Release {
    fn new() -> Result<Self> {
        let folder = work().join("artefacts");
        fs::create_dir_all(&folder)?;
        Ok(Self { version: env!("CARGO_PKG_VERSION").to_owned(), epoch: epoch()?, folder })
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.dry_run {
        return publish::dry_run().map(|()| ExitCode::SUCCESS);
    }
    let (processors, editions) = (options.processors()?, options.editions());
    needs::demand(&processors, options)?;
    let release = Release::new()?;
    if options.size {
        for processor in processors {
            for &edition in &editions {
                binary::build(&release, processor, edition)?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !options.built {
        make(&release, &processors, &editions, options)?;
    }
    if options.test {
        trial::run(&release, &processors, &editions)?;
    }
    println!("{}", release.folder.display());
    Ok(ExitCode::SUCCESS)
}

impl Options {
    /// The first one, if it runs here, prints manual pages and completions.
    fn processors(&self) -> Result<Vec<Processor>> {
        let mut processors = self.processor.clone();
        if processors.is_empty() {
            processors = Processor::value_variants().to_vec();
        }
        processors.sort_by_key(|processor| !processor.is_native());
        if self.program.is_some() {
            processors.truncate(1);
            ensure!(processors[0].is_native(), "no release has a program that runs here");
        }
        Ok(processors)
    }

    /// A program that is given is packed as the usual one.
    fn editions(&self) -> Vec<Edition> {
        match &self.program {
            Some(_) => vec![Edition::Usual],
            None if self.edition.is_empty() => Edition::value_variants().to_vec(),
            None => self.edition.clone(),
        }
    }
}

fn make(
    release: &Release,
    processors: &[Processor],
    editions: &[Edition],
    options: &Options,
) -> Result<()> {
    clear(&release.folder)?;
    for &edition in editions {
        if options.program.is_none() {
            sbom::write(release, edition)?;
        }
        for &processor in processors {
            let program = match &options.program {
                Some(program) => binary::take(program, processor, edition)?,
                None => binary::build(release, processor, edition)?,
            };
            let stage = stage::fill(release, processor, edition, &program)?;
            archive::pack(release, &stage)?;
            // One of each edition would be two owners of the same settings and journals.
            if edition == Edition::Usual {
                deb::build(release, processor, &stage)?;
            }
            image::build(release, processor, edition, &stage)?;
            if options.reproduce {
                binary::build_again(release, processor, edition)?;
            }
        }
    }
    checksums(release)
}

/// `SHA256SUMS`, as `sha256sum --check` reads it.
fn checksums(release: &Release) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(&release.folder)? {
        names.push(entry?.file_name());
    }
    names.sort();
    let sums = quiet(Command::new("sha256sum").args(&names).current_dir(&release.folder))?;
    fs::write(release.folder.join("SHA256SUMS"), sums)?;
    Ok(())
}

/// Where all of this is built.
pub(crate) fn work() -> PathBuf {
    target_folder().join("dist")
}

/// Deletes what is in a folder, and makes it if it is missing.
pub(crate) fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Runs a command and returns what it prints. Shows all of that only if it fails.
pub(crate) fn quiet(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let (succeeded, printed) = execute(command, SILENCE, |_| ())?;
    ensure!(succeeded, "{name} failed:\n{}", printed.trim_end());
    Ok(printed)
}

/// `SOURCE_DATE_EPOCH`, else the time of the commit.
fn epoch() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            quiet(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(workspace()))?
        }
    };
    text.trim().parse().context("SOURCE_DATE_EPOCH is no number of seconds")
}
