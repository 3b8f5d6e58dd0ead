//! docs/reference/token-format.md is complete: a verifier written from it in another language
//! agrees on every case.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::machine::has_python;

/// The cases that there were: there may be more, and none is to be lost.
const CASES: usize = 2_061;

#[test]
fn a_python_verifier_written_from_the_document_judges_every_case_alike() -> Result<()> {
    if !has_python()? {
        return Ok(());
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut program = Command::new("python3");
    program.arg(tests.join("python/verify.py"));
    for file in fs::read_dir(tests.join("vectors"))? {
        program.arg(file?.path());
    }
    let output = program.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    let judged = said.trim_end().strip_suffix(" cases judged, 0 differ");
    let judged = judged.with_context(|| format!("{said}{complaint}"))?.parse::<usize>()?;
    ensure!(output.status.success() && judged >= CASES, "{said}{complaint}");
    Ok(())
}
