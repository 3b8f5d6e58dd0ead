//! The core signs and verifies without an allocator, an operating system, or a way to panic.

use std::{env, path::PathBuf, process::Command};

use object::{Object, ObjectSymbol};

const TARGET: &str = "thumbv7em-none-eabi";

/// Builds the program of `tests/bare-metal` and gives the symbols that were linked in,
/// or what the compiler said.
fn link(feature: Option<&str>) -> Result<Vec<String>, String> {
    // A folder of its own: the build that runs this test may hold the lock of the ordinary one.
    let target_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bare-metal");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--locked",
        "--release",
        "--package",
        "mailroom-bare-metal",
        "--target",
        TARGET,
    ]);
    cargo
        .arg("--target-dir")
        .arg(&target_dir)
        .args(feature.map(|name| format!("--features={name}")));
    // Flags meant for the machine that runs the tests do not fit the bare one.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = cargo.output().expect("cargo runs this test, so cargo can be started");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let program = std::fs::read(target_dir.join(TARGET).join("release/mailroom-bare-metal"));
    let program = program.expect("the build left its program there");
    let program = object::File::parse(&*program).expect("the program is an ELF file");
    Ok(program.symbols().filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect())
}

fn panics(symbols: &[String]) -> Vec<&String> {
    symbols.iter().filter(|symbol| symbol.contains("9panicking")).collect()
}

// One test, because both builds share a folder.
#[test]
fn signing_and_verifying_link_without_an_allocator_and_without_a_panic() {
    let symbols = link(None).expect("the core links for a bare machine");
    assert!(
        symbols.iter().any(|symbol| symbol.contains("SIGN")),
        "the probes were dropped: {symbols:?}"
    );
    assert_eq!(panics(&symbols), Vec::<&String>::new());

    let symbols = link(Some("panics")).expect("a program that panics links as well");
    assert_ne!(panics(&symbols), Vec::<&String>::new(), "this test does not see a panic");

    // v3 keeps the bounds checks of curve25519-dalek, which no input reaches; its link shows that
    // nothing allocates.
    link(Some("public")).expect("the core with v3 links for a bare machine");

    let refusal = link(Some("allocates")).expect_err("a program that allocates must not link");
    assert!(refusal.contains("no global memory allocator found"), "{refusal}");
}
