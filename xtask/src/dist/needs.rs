//! What must be installed, all of it said at once.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::{Options, Processor};
use crate::tools;

struct Need {
    program: &'static str,
    /// Debian's package.
    package: &'static str,
    reason: &'static str,
}

/// For the artefacts.
const BUILD: [Need; 7] = [
    Need { program: "dh", package: "debhelper", reason: "Debian packages" },
    Need { program: "git", package: "git", reason: "the time of the commit" },
    Need { program: "gzip", package: "gzip", reason: "archives" },
    Need { program: "python3", package: "python3-pip", reason: "Zig, which has musl" },
    Need { program: "sha256sum", package: "coreutils", reason: "checksums" },
    Need { program: "tar", package: "tar", reason: "archives" },
    Need { program: "umoci", package: "umoci", reason: "images" },
];

/// Those that make the programs.
const OF_PROGRAMS: [&str; 3] = ["git", "gzip", "python3"];

/// For `--test`.
const TEST: [Need; 6] = [
    Need { program: "debootstrap", package: "debootstrap", reason: "a fresh root" },
    Need { program: "chroot", package: "coreutils", reason: "a fresh root" },
    Need { program: "dh", package: "debhelper", reason: "an older version of the package" },
    Need { program: "lintian", package: "lintian", reason: "the policy of Debian's packages" },
    Need { program: "python3", package: "python3", reason: "what an image says of itself" },
    Need { program: "umoci", package: "umoci", reason: "images" },
];

/// Runs what is for another processor.
const EMULATOR: &str = "qemu-user-static";

pub(crate) fn demand(processors: &[Processor], options: &Options) -> Result<()> {
    let (build, test) = (!options.built, options.test);
    let mut missing = Vec::new();
    let mut packages = Vec::new();
    let mut lack = |program: &str, package: &str, reason: &str| {
        let line = format!("    {program}: {reason}");
        if !missing.contains(&line) {
            missing.push(line);
        }
        if !packages.contains(&package.to_owned()) {
            packages.push(package.to_owned());
        }
    };
    let builds = BUILD.iter().filter(|_| build);
    let builds = builds.filter(|need| !options.size || OF_PROGRAMS.contains(&need.program));
    for need in builds.chain(TEST.iter().filter(|_| test)) {
        if !is_installed(need.program) {
            lack(need.program, need.package, need.reason);
        }
    }
    for processor in processors.iter().filter(|processor| test && !processor.is_native()) {
        let program = emulator(*processor);
        if !is_installed(&program) {
            lack(&program, EMULATOR, "runs programs of the other processor");
        }
    }
    ensure!(
        missing.is_empty(),
        "these programs are missing:\n{}\ninstall them: apt-get install {}",
        missing.join("\n"),
        packages.join(" ")
    );
    let root = Command::new("id").arg("-u").output();
    let is_root = root.is_ok_and(|output| output.stdout == b"0\n");
    ensure!(!test || is_root, "--test installs into a root of its own: run it as root");
    if !build || options.program.is_some() {
        return Ok(());
    }
    let targets: Vec<&str> = processors.iter().map(|processor| processor.target()).collect();
    tools::add("target", &targets)
}

/// The static qemu, which runs in a root that has nothing else.
pub(crate) fn emulator(processor: Processor) -> String {
    format!("qemu-{}-static", processor.kernel())
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path);
    let of_root = ["/usr/sbin", "/sbin"].map(Path::new).map(Path::to_path_buf);
    folders.chain(of_root).any(|folder| folder.join(program).is_file())
}
