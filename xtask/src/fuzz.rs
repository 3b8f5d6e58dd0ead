//! `cargo xtask fuzz`: tries inputs that nobody thought of.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use mailroom_tests::corpus;
use mailroom_tests::tools::{target_folder, workspace};

use crate::tools;

const CARGO_FUZZ: &str = "0.13.2";

/// How often a running target says how far it is.
const REFRESH: Duration = Duration::from_secs(15);

/// How many lines of a target that found something are shown.
const SHOWN: usize = 60;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The targets, by their file in `fuzz/fuzz_targets`; all of them unless something is named
    targets: Vec<String>,

    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// The number that a former run printed, to try the same inputs again; a new one unless it is given
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seed: Option<u32>,

    /// What watches the memory of dependencies; `address` takes the nightly toolchain, half as fast
    #[arg(long, value_enum, default_value_t = Sanitizer::None)]
    sanitizer: Sanitizer,

    /// Keeps the fewest inputs that reach as much code in `fuzz/corpus`, where the tests read them
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sanitizer {
    None,
    Address,
}

impl Sanitizer {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Address => "address",
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let targets = targets(&options.targets)?;
    let program = tools::install("cargo-fuzz", "cargo-fuzz", CARGO_FUZZ)?;
    let fuzzer = Fuzzer {
        path: tools::path_with(program.parent().context("a program lies in a folder")?)?,
        sanitizer: options.sanitizer,
        work: target_folder().join("fuzz"),
    };
    println!("==> build the targets");
    let build = fuzzer.cargo("build", &[]).status().context("cannot run cargo fuzz")?;
    ensure!(build.success(), "the fuzz targets do not build");

    let seed = options.seed.unwrap_or_else(new_seed);
    let mut broken = 0;
    let mut summary = Vec::new();
    for target in &targets {
        println!("==> {target}: {} s, seed {seed}", options.seconds);
        let found = fuzzer.run(target, options.seconds, seed)?;
        broken += usize::from(!found.succeeded);
        if found.succeeded && options.keep {
            fuzzer.keep(target)?;
        }
        summary.push((target, found));
    }

    println!("\n{:16} {:>12} {:>9} {:>7} {:>9}", "target", "executions", "a second", "edges", "features");
    for (target, found) in &summary {
        println!("{target:16} {found}");
    }
    println!("again: cargo xtask fuzz --seconds {} --seed {seed} {}", options.seconds, targets.join(" "));
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

struct Fuzzer {
    /// The `PATH` on which `cargo-fuzz` is found.
    path: OsString,
    sanitizer: Sanitizer,
    /// Where builds and new inputs go.
    work: PathBuf,
}

impl Fuzzer {
    /// `cargo fuzz SUBCOMMAND`, with libFuzzer's own arguments behind `--`.
    fn cargo(&self, subcommand: &str, arguments: &[&str]) -> Command {
        let nightly = (self.sanitizer == Sanitizer::Address).then_some("+nightly");
        let mut command = tools::cargo(nightly.into_iter().chain(["fuzz", subcommand]));
        command.args(["--sanitizer", self.sanitizer.name(), "--target-dir"]);
        command.arg(self.work.join(self.sanitizer.name())).args(arguments);
        command.env("PATH", &self.path);
        command
    }

    /// Runs a target on its corpus; new inputs go to a folder that is empty at first, so that the seed repeats the run.
    fn run(&self, target: &str, seconds: u32, seed: u32) -> Result<Found> {
        let new = emptied(&self.work.join("new").join(target))?;
        let corpus = self.corpus(target)?;
        let mut command = self.cargo("run", &[target]);
        command.args([&new, &corpus]).arg("--");
        command.args([format!("-max_total_time={seconds}"), format!("-seed={seed}")]);
        command.arg("-max_len=1024").stdin(Stdio::null()).stderr(Stdio::piped());

        let mut child = command.spawn().context("cannot run cargo fuzz")?;
        let output = child.stderr.take().context("the output is piped")?;
        let mut lines = Vec::new();
        let mut found = Found::default();
        let mut shown = Instant::now();
        for line in BufReader::new(output).lines() {
            let line = line.context("cannot read what the target says")?;
            if found.read(&line) && shown.elapsed() > REFRESH {
                println!("    {line}");
                shown = Instant::now();
            }
            lines.push(line);
        }
        found.succeeded = child.wait()?.success();
        if !found.succeeded {
            println!("{}", lines[lines.len().saturating_sub(SHOWN)..].join("\n"));
        }
        Ok(found)
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

/// What a target says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    executions: u64,
    per_second: u64,
    edges: u64,
    features: u64,
    succeeded: bool,
}

impl Found {
    /// Reads a line such as `#8192 pulse  cov: 411 ft: 1002 corp: 90/12Kb lim: 80 exec/s: 2730 rss: 29Mb`.
    fn read(&mut self, line: &str) -> bool {
        let Some((executions, rest)) =
            line.strip_prefix('#').and_then(|line| line.split_once(char::is_whitespace))
        else {
            return false;
        };
        let Ok(executions) = executions.parse() else { return false };
        // Frames of a stack begin alike.
        if !rest.contains("cov: ") {
            return false;
        }
        self.executions = executions;
        let words: Vec<_> = rest.split_whitespace().collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[1].parse() else { continue };
            match pair[0] {
                "cov:" => self.edges = number,
                "ft:" => self.features = number,
                "exec/s:" => self.per_second = number,
                _ => {}
            }
        }
        true
    }
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executions, per_second, edges, features, succeeded } = self;
        let verdict = if *succeeded { "" } else { "   FAILED" };
        write!(formatter, "{executions:12} {per_second:9} {edges:7} {features:9}{verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_target_gives_its_figures() {
        let mut found = Found::default();
        assert!(found.read("#23\tINITED cov: 541 ft: 823 corp: 12/576b exec/s: 0 rss: 27Mb"));
        assert!(
            found.read("#67871\tDONE   cov: 583 ft: 1027 corp: 114/5339b lim: 589 exec/s: 7541 rss: 28Mb")
        );
        assert!(!found.read("INFO: seed corpus: files: 3"));
        assert!(!found.read("#0 0x55d8 in rust_fuzzer_test_input"));
        assert_eq!(
            found,
            Found { executions: 67_871, per_second: 7541, edges: 583, features: 1027, succeeded: false }
        );
    }

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let error = targets(&["tokens".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("there is no fuzz target `tokens`; there are: code, "), "{error}");
        assert_eq!(targets(&["token".to_owned()]).unwrap(), ["token"]);
    }
}
