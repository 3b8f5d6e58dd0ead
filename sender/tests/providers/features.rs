//! A build without a kind of providers is one without what only they need.

use std::process::Command;

/// The packages of a build with one feature.
fn packages(feature: &str) -> Vec<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "tree",
        "--locked",
        "--offline",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    command.args(["--package", "mailroom-sender", "--no-default-features", "--features", feature]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn a_build_with_one_kind_of_providers_has_nothing_of_the_others() {
    for (feature, present, absent) in [
        ("smtp", ["lettre", "rustls"], &["ureq"][..]),
        ("keyed", ["ureq", "rustls"], &["hmac", "sha2"]),
        ("http", ["ureq", "rustls"], &["hmac", "sha2"]),
        ("ses", ["hmac", "sha2"], &[]),
    ] {
        let packages = packages(feature);
        let has = |name: &&str| packages.iter().any(|package| package == name);
        assert!(present.iter().all(has), "{feature}: {packages:?}");
        assert!(!absent.iter().any(has), "{feature}: {packages:?}");
    }
}
