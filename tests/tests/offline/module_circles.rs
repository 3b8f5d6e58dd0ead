//! No module of a crate uses one that uses it, directly or by others: a module can be read and
//! changed with nothing but what stands below it.
//!
//! A module is a file or folder of `src`, with all that is in it. What counts is `crate::…` in its
//! code, as every `use` of another module begins; tests and their crates may use what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use mailroom_tests::tools;

use crate::repository;

/// Modules of a crate, and those that each uses.
#[derive(Default)]
struct Uses(BTreeMap<String, BTreeSet<String>>);

impl Uses {
    fn add(&mut self, module: &str, code: &str) {
        let uses = self.0.entry(module.to_owned()).or_default();
        uses.extend(used(code).filter(|used| used != module));
    }

    /// The modules that can be reached from one.
    fn below(&self, module: &str) -> BTreeSet<&str> {
        let mut below = BTreeSet::new();
        let mut next = vec![module];
        while let Some(from) = next.pop() {
            for used in self.0.get(from).into_iter().flatten() {
                if below.insert(used.as_str()) {
                    next.push(used);
                }
            }
        }
        below
    }

    /// The modules that can be reached from themselves, each with those of them that it uses.
    fn circles(&self) -> BTreeMap<&str, Vec<&str>> {
        let is_back = |from: &str, to: &str| self.below(from).contains(to);
        let in_circle = self.0.keys().filter(|module| is_back(module, module));
        let with_uses = in_circle.map(|module| {
            let uses = self.0[module].iter().map(String::as_str);
            (module.as_str(), uses.filter(|used| is_back(used, module)).collect())
        });
        with_uses.collect()
    }
}

/// The code of a file without its comments and its tests.
fn code(text: &str) -> String {
    let tested = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = tested.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules of the own crate that code names.
fn used(code: &str) -> impl Iterator<Item = String> {
    let paths = code.split("crate::").skip(1);
    paths.flat_map(|path| match path.strip_prefix('{') {
        Some(list) => names_of_list(list),
        None => vec![first_word(path)],
    })
}

/// The first names in a list of paths, of which each may have a list of its own.
fn names_of_list(list: &str) -> Vec<String> {
    let mut names = vec![first_word(list)];
    let mut depth = 1;
    for (at, sign) in list.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(first_word(&list[at + 1..])),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_word(text: &str) -> String {
    let is_word = |sign: &char| sign.is_alphanumeric() || *sign == '_';
    text.trim_start().chars().take_while(is_word).collect()
}

/// What the modules of every crate use, by the crate's folder.
fn crates() -> Result<BTreeMap<String, Uses>> {
    let files = repository::files()?;
    let mut crates = BTreeMap::<String, Uses>::new();
    for path in &files {
        let Some((folder, inner)) = path.split_once("/src/") else { continue };
        if Path::new(inner).extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let module = inner.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let is_test = inner.ends_with("tests.rs");
        if is_test || folder.starts_with("tests") || ["lib", "main", "bin"].contains(&module) {
            continue;
        }
        let text = fs::read_to_string(tools::workspace().join(path)).context(path.clone())?;
        crates.entry(folder.to_owned()).or_default().add(module, &code(&text));
    }
    Ok(crates)
}

#[test]
fn no_crate_has_a_circle_of_modules() -> Result<()> {
    let crates = crates()?;
    assert!(crates.len() > 10, "only {} crates are read", crates.len());
    assert!(crates["sender"].0["serve"].contains("shared"), "uses are not found");
    for (folder, uses) in &crates {
        let circles = uses.circles();
        assert!(circles.is_empty(), "{folder}/src has a circle of modules: {circles:#?}");
    }
    Ok(())
}

#[test]
fn a_circle_is_found_however_its_modules_are_named() {
    let mut uses = Uses::default();
    uses.add("a", &code("use crate::{c::{self, X}, b};\n"));
    uses.add("b", &code("fn f() { crate::c::f() }\n"));
    uses.add("c", &code("// crate::d\n#[cfg(test)]\nmod tests { use crate::a; }\n"));
    assert!(uses.circles().is_empty());
    assert_eq!(uses.below("a"), ["b", "c"].into());
    uses.add("c", "use crate::{\n    d, a::Y,\n};\n");
    let found = uses.circles();
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(found["c"], ["a"]);
}
