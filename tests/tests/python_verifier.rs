//! docs/FORMAT.md is complete: a verifier written from it in another language agrees on every case.
//!
//! Without libtest, which cannot say that a test was skipped: where nobody has installed Python, this is.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitCode, Output};

use anyhow::{Context, Result};

const TITLE: &str = "a_python_verifier_written_from_the_document_judges_every_v1_and_v2_case_alike";

fn main() -> Result<ExitCode> {
    let Some(output) = judge_every_case()? else {
        println!("skipped: {TITLE}: there is no python3; install Python 3.9 or later");
        println!("test result: ok. 0 passed; 0 failed; 1 ignored");
        return Ok(ExitCode::SUCCESS);
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && said.contains("688 cases judged, 0 differ") {
        println!("test {TITLE} ... ok");
        println!("test result: ok. 1 passed; 0 failed; 0 ignored");
        return Ok(ExitCode::SUCCESS);
    }
    println!("test {TITLE} ... FAILED\n{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("test result: FAILED. 0 passed; 1 failed; 0 ignored");
    Ok(ExitCode::FAILURE)
}

/// What the program in Python says; nothing if there is no Python.
fn judge_every_case() -> Result<Option<Output>> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut program = Command::new("python3");
    program.arg(tests.join("python/verify.py"));
    program.args(["v1.json", "v2.json"].map(|name| tests.join("vectors").join(name)));
    match program.output() {
        Ok(output) => Ok(Some(output)),
        // Folders of `PATH` that this user may not enter are of no use to them, either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => Ok(None),
        Err(error) => Err(error).context("python3 cannot be started"),
    }
}
