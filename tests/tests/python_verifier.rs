//! docs/FORMAT.md is complete: a verifier written from it in another language agrees on every case.

use std::{path::Path, process::Command};

#[test]
fn a_python_verifier_written_from_the_document_judges_every_v1_and_v2_case_alike() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("python3")
        .arg(tests.join("python/verify.py"))
        .args(["v1.json", "v2.json"].map(|name| tests.join("vectors").join(name)))
        .output()
        .expect("python3 starts; install Python 3.9 or later");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("688 cases judged, 0 differ"), "{said}");
}
