//! What the fuzzers kept, on every platform and without a fuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use mailroom_properties::PROPERTIES;

fn fuzz(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(folder)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the folder is readable").path()).collect();
    files.sort();
    files
}

#[test]
fn every_property_holds_on_every_kept_input() {
    for (name, property) in PROPERTIES {
        let inputs = files(&fuzz("corpus").join(name));
        assert!(!inputs.is_empty(), "the corpus of {name} is empty");
        for input in inputs {
            let data = fs::read(&input).expect("the corpus is readable");
            assert!(catch_unwind(|| property(&data)).is_ok(), "{name} breaks on {}", input.display());
        }
    }
}

#[test]
fn every_property_has_a_fuzz_target_and_every_target_a_property() {
    let targets = files(&fuzz("fuzz_targets"));
    let targets: BTreeSet<_> = targets.iter().filter_map(|file| file.file_stem()?.to_str()).collect();
    assert_eq!(targets, PROPERTIES.map(|(name, _)| name).into());
}
