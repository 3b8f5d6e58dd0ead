//! `cargo xtask fuzz`: runs the fuzz targets.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mailroom_tests::corpus;
use mailroom_tests::tools::{folder as tools_folder, target_folder};

use crate::execute::{REFRESH, execute, watch};
use crate::tools;

const CARGO_FUZZ: &str = "0.13.2";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The targets, by their file in `fuzz/fuzz_targets`; all of them by default
    targets: Vec<String>,

    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
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
    let fuzzer = Fuzzer {
        path: install()?,
        sanitizer: &options.sanitizer,
        work: target_folder().join("fuzz"),
    };
    watch(&mut fuzzer.cargo("build"), "build the targets")?;
    let seed = options.seed.unwrap_or_else(tools::new_seed);
    let (mut has_passed, mut summary) = (true, Vec::new());
    for target in &targets {
        println!("==> {target}: {} s, seed {seed}", options.seconds);
        let (succeeded, figures) = fuzzer.run(target, options.seconds, seed)?;
        has_passed &= succeeded;
        if succeeded && options.keep {
            fuzzer.keep(target)?;
        }
        summary
            .push(format!("{:6} {target:20} {figures}", if succeeded { "ok" } else { "FAILED" }));
    }
    println!("\n{}", summary.join("\n"));
    println!(
        "again: cargo xtask fuzz --seconds {} --seed {seed} {}",
        options.seconds,
        targets.join(" ")
    );
    Ok(ExitCode::from(u8::from(!has_passed)))
}

/// Installs cargo-fuzz in exactly this version, and returns the `PATH` on which it is found.
fn install() -> Result<OsString> {
    let root = tools_folder().join(format!("cargo-fuzz-{CARGO_FUZZ}"));
    if !root.join("bin/cargo-fuzz").is_file() {
        let mut command =
            tools::cargo(["install", "--locked", "--version", CARGO_FUZZ, "cargo-fuzz"]);
        // Built aside, so that its hundreds of dependencies do not fill the target folder.
        command.arg("--root").arg(&root).env_remove("CARGO_TARGET_DIR");
        watch(&mut command, &format!("build cargo-fuzz {CARGO_FUZZ}, once, in some minutes"))?;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths([root.join("bin")].into_iter().chain(env::split_paths(&path)))?)
}

/// The targets that were asked for, or all of them.
fn targets(asked: &[String]) -> Result<Vec<String>> {
    let files = tools::entries("fuzz/fuzz_targets")?;
    let known: Vec<_> =
        files.iter().filter_map(|file| Some(file.file_stem()?.display().to_string())).collect();
    if let Some(unknown) = asked.iter().find(|name| !known.contains(name)) {
        bail!("there is no fuzz target `{unknown}`; there are: {}", known.join(", "));
    }
    Ok(if asked.is_empty() { known } else { asked.to_vec() })
}

struct Fuzzer<'a> {
    /// The `PATH` on which `cargo-fuzz` is found.
    path: OsString,
    sanitizer: &'a str,
    /// Where builds and new inputs go.
    work: PathBuf,
}

impl Fuzzer<'_> {
    fn cargo(&self, subcommand: &str) -> Command {
        let nightly = (self.sanitizer == "address").then_some("+nightly");
        let mut command = tools::cargo(nightly.into_iter().chain(["fuzz", subcommand]));
        command.args(["--sanitizer", self.sanitizer, "--target-dir"]);
        command.arg(self.work.join(self.sanitizer)).env("PATH", &self.path);
        command
    }

    /// Runs a target on its corpus; new inputs go to a folder that is empty at first, so that the
    /// seed repeats the run. Returns whether it passed, and its last figures.
    fn run(&self, target: &str, seconds: u32, seed: u32) -> Result<(bool, String)> {
        let mut command = self.cargo("run");
        command
            .arg(target)
            .args([emptied(&self.work.join("new").join(target))?, self.corpus(target)?]);
        command.args([
            "--",
            "-max_len=1024",
            &format!("-max_total_time={seconds}"),
            &format!("-seed={seed}"),
        ]);
        // Such as `#8192 pulse  cov: 411 ft: 1002 exec/s: 2730`; frames of a stack begin alike.
        let has_figures = |line: &str| line.starts_with('#') && line.contains("cov: ");
        let (mut figures, mut shown) = (String::new(), Instant::now());
        // It prints ever more seldom, and ends by the time that it is given.
        let (succeeded, printed) = execute(&mut command, Duration::MAX, |line| {
            if has_figures(line) {
                line.clone_into(&mut figures);
                if shown.elapsed() > REFRESH {
                    println!("    {line}");
                    shown = Instant::now();
                }
            }
        })?;
        if !succeeded {
            // The figures of thousands of lines are of no use.
            printed.lines().filter(|line| !has_figures(line)).for_each(|line| println!("{line}"));
        }
        Ok((succeeded, figures))
    }

    /// Replaces the corpus by as few of its inputs and the new ones as reach the same code.
    fn keep(&self, target: &str) -> Result<()> {
        let least = emptied(&self.work.join("least").join(target))?;
        let mut command = self.cargo("run");
        command.arg(target).args([
            &least,
            &self.corpus(target)?,
            &self.work.join("new").join(target),
        ]);
        command.args(["--", "-set_cover_merge=1", "-max_len=1024"]);
        watch(&mut command, &format!("make the corpus of {target} smaller"))?;
        let inputs =
            tools::entries(least)?.into_iter().map(fs::read).collect::<Result<Vec<_>, _>>()?;
        println!("    {} inputs kept in {}", inputs.len(), corpus::file(target).display());
        corpus::write(target, inputs)
    }

    /// A folder with the inputs that are kept, each in a file of its own, as libFuzzer reads them.
    fn corpus(&self, target: &str) -> Result<PathBuf> {
        let folder = emptied(&self.work.join("corpus").join(target))?;
        for (number, input) in corpus::read(target)?.iter().enumerate() {
            fs::write(folder.join(number.to_string()), input)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let error = targets(&["tokens".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("there is no fuzz target `tokens`; there are: "), "{error}");
        assert!(error.contains(" code, ") && error.ends_with(", token"), "{error}");
        assert_eq!(targets(&["token".to_owned()]).unwrap(), ["token"]);
    }
}
