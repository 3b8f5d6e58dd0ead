//! A language is one of the pages and of the mails alike: wherever languages are listed, all are.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use mailroom_tests::tools;

/// The names in a folder of the repository, without this ending.
fn names(folder: &str, ending: &str) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(tools::workspace().join(folder)).context(folder.to_owned())?;
    let mut found = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        found.extend(name.strip_suffix(ending).map(str::to_owned));
    }
    Ok(found)
}

/// The quoted words between two parts of a file.
fn quoted(path: &str, begin: &str, end: &str) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(tools::workspace().join(path)).context(path.to_owned())?;
    let (_, rest) = text.split_once(begin).with_context(|| format!("{path} has no {begin}"))?;
    let (list, _) = rest.split_once(end).with_context(|| format!("{path} has no {end}"))?;
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

#[test]
fn every_language_of_the_pages_is_spoken_by_the_handler_and_has_mails_that_are_shipped()
-> Result<()> {
    let npm = "verifier-wasm/npm/src";
    let pages = names(&format!("{npm}/handler/texts"), ".ts")?;
    assert!(pages.len() >= 8, "{pages:?}");

    let mut spoken = quoted(&format!("{npm}/handler/late_languages.ts"), "names: [", "]")?;
    // It is never late: every handler has it.
    spoken.insert("en".to_owned());
    assert_eq!(spoken, pages, "late_languages.ts");

    let entry = fs::read_to_string(tools::workspace().join(npm).join("entries/languages.ts"))?;
    for language in pages.iter().filter(|language| *language != "en") {
        assert!(entry.contains(&format!("export {{ {language} }}")), "languages.ts: {language}");
    }

    let folders: BTreeSet<String> =
        names("sender/templates", "")?.into_iter().filter(|name| !name.contains('.')).collect();
    assert_eq!(folders, pages, "sender/templates");
    let shipped = quoted("sender/src/templates/shipped.rs", "shipped![", "]")?;
    assert_eq!(shipped, pages, "shipped.rs");

    // What the tests of the pages go through.
    for (file, list) in [("handler_languages.mjs", "BUTTONS"), ("handler_onward.mjs", "LINKS")] {
        let suite = format!("verifier-wasm/npm/test/runtimes/suite/{file}");
        let text = fs::read_to_string(tools::workspace().join(&suite)).context(suite.clone())?;
        let (_, rest) = text.split_once(&format!("{list} = {{")).context(list)?;
        let (members, _) = rest.split_once("};").context("the end of the list")?;
        let names = members.lines().filter_map(|line| Some(line.trim().split_once(':')?.0));
        assert_eq!(names.map(str::to_owned).collect::<BTreeSet<_>>(), pages, "{suite}");
    }
    Ok(())
}

/// The number of languages in words, from eight on.
const NUMBERS: [&str; 9] =
    ["eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"];

#[test]
fn every_document_that_counts_the_languages_has_their_number() -> Result<()> {
    let languages = names("verifier-wasm/npm/src/handler/texts", ".ts")?.len();
    let number = languages.checked_sub(8).and_then(|above| NUMBERS.get(above));
    let wanted = format!("{} languages", number.context("a number in words")?);
    for path in [
        "README.md",
        "docs/guides/link-pages.md",
        "docs/guides/notices.md",
        "docs/pictures/link.svg",
        "verifier-wasm/npm/README.md",
        "verifier-wasm/npm/REFERENCE.md",
    ] {
        let text = fs::read_to_string(tools::workspace().join(path)).context(path)?;
        // A line may end between the words.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.to_lowercase().contains(&wanted), "{path} does not say {wanted}");
    }
    Ok(())
}
