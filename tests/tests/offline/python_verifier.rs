//! docs/reference/token-format.md is complete: a verifier written from it in another language
//! agrees on every case.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use mailroom_tests::machine::has_python;

#[test]
fn a_python_verifier_written_from_the_document_judges_every_case_alike() -> Result<()> {
    if !has_python()? {
        return Ok(());
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut program = Command::new("python3");
    program.arg(tests.join("python/verify.py"));
    let output = program
        .args(
            ["v1.json", "v2.json", "v3.json", "actions.json", "bound.json"]
                .map(|name| tests.join("vectors").join(name)),
        )
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && said.contains("2061 cases judged, 0 differ"),
        "{said}{complaint}"
    );
    Ok(())
}
