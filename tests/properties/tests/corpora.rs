//! What the fuzzers kept, on every platform and without a fuzzer.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::panic::catch_unwind;

use mailroom_properties::PROPERTIES;
use mailroom_tests::{corpus, tools::workspace};

/// The names of the files in a folder of `fuzz/`, without what follows the dot.
fn stems(folder: &str) -> BTreeSet<OsString> {
    let folder = workspace().join("fuzz").join(folder);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_owned())).collect()
}

#[test]
fn every_property_holds_on_every_kept_input() {
    for (name, property) in PROPERTIES {
        let inputs = corpus::read(name).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(!inputs.is_empty(), "the corpus of {name} is empty");
        for input in inputs {
            let held = catch_unwind(|| property(&input)).is_ok();
            assert!(held, "{name} breaks on {}", input.escape_ascii());
        }
    }
}

#[test]
fn every_property_has_a_fuzz_target_and_a_corpus_and_there_are_no_others() {
    let names: BTreeSet<OsString> = PROPERTIES.map(|(name, _)| name.into()).into();
    assert_eq!(stems("fuzz_targets"), names);
    assert_eq!(stems("corpus"), names);
}
