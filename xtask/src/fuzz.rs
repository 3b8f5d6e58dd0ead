//! `cargo xtask fuzz`: runs the fuzz targets.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use mailroom_tests::corpus;
use mailroom_tests::tools::{folder as tools_folder, target_folder, workspace};

use crate::step::watch;
use crate::tools;

const CARGO_FUZZ: &str = "0.13.2";

/// How often the figures of a running target are shown.
const REFRESH: Duration = Duration::from_secs(15);

/// How many lines of a failed target are shown.
const SHOWN: usize = 60;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The targets, by their file in `fuzz/fuzz_targets`; all of them by default
    targets: Vec<String>,

    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// The number that a former run printed, to try the same inputs again; a new one by default
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seed: Option<u32>,

    /// What watches the memory of dependencies; `address` takes the nightly toolchain, half as fast
    #[arg(long, value_parser = ["none", "address"], default_value = "none")]
    sanitizer: String,

    /// Keeps the fewest inputs that reach the same code in `fuzz/corpus`, where the tests read them
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let targets = targets(&options.targets)?;
    let fuzzer =
        Fuzzer { path: install()?, sanitizer: &options.sanitizer, work: target_folder().join("fuzz") };
    println!("==> build the targets");
    let build = fuzzer.cargo("build", &[]).status().context("cannot run cargo fuzz")?;
    ensure!(build.success(), "the fuzz targets do not build");

    let seed = options.seed.unwrap_or_else(new_seed);
    let mut has_passed = true;
    let mut summary = Vec::new();
    for target in &targets {
        println!("==> {target}: {} s, seed {seed}", options.seconds);
        let (succeeded, figures) = fuzzer.run(target, options.seconds, seed)?;
        has_passed &= succeeded;
        if succeeded && options.keep {
            fuzzer.keep(target)?;
        }
        summary.push(format!("{:6} {target:20} {figures}", if succeeded { "ok" } else { "FAILED" }));
    }
    println!("\n{}", summary.join("\n"));
    println!("again: cargo xtask fuzz --seconds {} --seed {seed} {}", options.seconds, targets.join(" "));
    Ok(if has_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Installs cargo-fuzz in exactly this version, and returns the `PATH` on which it is found.
fn install() -> Result<OsString> {
    let root = tools_folder().join(format!("cargo-fuzz-{CARGO_FUZZ}"));
    if !root.join("bin/cargo-fuzz").is_file() {
        let mut command = tools::cargo(["install", "--locked", "--version", CARGO_FUZZ, "cargo-fuzz"]);
        // Built aside, so that its hundreds of dependencies do not fill the target folder.
        command.arg("--root").arg(&root).env_remove("CARGO_TARGET_DIR");
        watch(&mut command, &format!("build cargo-fuzz {CARGO_FUZZ}, once, in some minutes"))?;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths([root.join("bin")].into_iter().chain(env::split_paths(&path)))?)
}

/// The targets that were asked for, or all of them.
fn targets(asked: &[String]) -> Result<Vec<String>> {
    let folder = workspace().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let names = entries.map(|entry| Ok(entry?.path().file_stem().map(|stem| stem.display().to_string())));
    let mut known: Vec<_> = names.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    known.sort();
    if let Some(unknown) = asked.iter().find(|name| !known.contains(name)) {
        bail!("there is no fuzz target `{unknown}`; there are: {}", known.join(", "));
    }
    Ok(if asked.is_empty() { known } else { asked.to_vec() })
}

/// The seconds of today: short to type, and another one each time.
fn new_seed() -> u32 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    u32::try_from(seconds % 86_400).map_or(1, |seconds| seconds + 1)
}

struct Fuzzer<'a> {
    /// The `PATH` on which `cargo-fuzz` is found.
    path: OsString,
    sanitizer: &'a str,
    /// Where builds and new inputs go.
    work: PathBuf,
}

impl Fuzzer<'_> {
    /// `cargo fuzz SUBCOMMAND`, with libFuzzer's own arguments behind `--`.
    fn cargo(&self, subcommand: &str, arguments: &[&str]) -> Command {
        let nightly = (self.sanitizer == "address").then_some("+nightly");
        let mut command = tools::cargo(nightly.into_iter().chain(["fuzz", subcommand]));
        command.args(["--sanitizer", self.sanitizer, "--target-dir"]);
        command.arg(self.work.join(self.sanitizer)).args(arguments);
        command.env("PATH", &self.path);
        command
    }

    /// Runs a target on its corpus; new inputs go to a folder that is empty at first, so that the seed repeats the run.
    /// Returns whether it passed, and its last figures.
    fn run(&self, target: &str, seconds: u32, seed: u32) -> Result<(bool, String)> {
        let new = emptied(&self.work.join("new").join(target))?;
        let corpus = self.corpus(target)?;
        let mut command = self.cargo("run", &[target]);
        command.args([&new, &corpus]).arg("--");
        command.args([format!("-max_total_time={seconds}"), format!("-seed={seed}")]);
        command.arg("-max_len=1024").stdin(Stdio::null()).stderr(Stdio::piped());

        let mut child = command.spawn().context("cannot run cargo fuzz")?;
        let output = child.stderr.take().context("the output is piped")?;
        let (mut lines, mut figures) = (Vec::new(), String::new());
        let mut shown = Instant::now();
        for line in BufReader::new(output).lines() {
            let line = line.context("cannot read what the target prints")?;
            if has_figures(&line) {
                figures.clone_from(&line);
                if shown.elapsed() > REFRESH {
                    println!("    {line}");
                    shown = Instant::now();
                }
            }
            lines.push(line);
        }
        let succeeded = child.wait()?.success();
        if !succeeded {
            println!("{}", lines[lines.len().saturating_sub(SHOWN)..].join("\n"));
        }
        Ok((succeeded, figures))
    }

    /// Replaces the corpus by as few of its inputs and the new ones as reach the same code.
    fn keep(&self, target: &str) -> Result<()> {
        let (new, corpus) = (self.work.join("new").join(target), self.corpus(target)?);
        let least = emptied(&self.work.join("least").join(target))?;
        let mut command = self.cargo("run", &[target]);
        command.args([&least, &corpus, &new]).args(["--", "-set_cover_merge=1", "-max_len=1024"]);
        let output = command.stdin(Stdio::null()).output().context("cannot run cargo fuzz")?;
        ensure!(
            output.status.success(),
            "the corpus of {target} cannot be made smaller: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let entries = fs::read_dir(&least).with_context(|| format!("cannot read {}", least.display()))?;
        let inputs = entries.map(|entry| Ok(fs::read(entry?.path())?)).collect::<Result<Vec<_>>>()?;
        println!("    {} inputs kept in {}", inputs.len(), corpus::file(target).display());
        corpus::write(target, inputs)
    }

    /// A folder with the inputs that are kept, each in a file of its own, as libFuzzer reads them.
    fn corpus(&self, target: &str) -> Result<PathBuf> {
        let folder = emptied(&self.work.join("corpus").join(target))?;
        for (number, input) in corpus::read(target)?.iter().enumerate() {
            let file = folder.join(number.to_string());
            fs::write(&file, input).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(folder)
    }
}

fn emptied(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.to_owned())
}

/// Whether a line has libFuzzer's figures, such as `#8192 pulse  cov: 411 ft: 1002 exec/s: 2730`. Frames of a stack begin alike.
fn has_figures(line: &str) -> bool {
    line.starts_with('#') && line.contains("cov: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_from_other_lines() {
        assert!(has_figures("#67871\tDONE   cov: 583 ft: 1027 corp: 114/5339b exec/s: 7541 rss: 28Mb"));
        assert!(!has_figures("INFO: seed corpus: files: 3"));
        assert!(!has_figures("#0 0x55d8 in rust_fuzzer_test_input"));
    }

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let error = targets(&["tokens".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("there is no fuzz target `tokens`; there are: code, "), "{error}");
        assert_eq!(targets(&["token".to_owned()]).unwrap(), ["token"]);
    }
}
