//! Wherever the lengths of tokens are repeated, they are those of the core.

use std::fs;

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools;
use mailroom_verifier_core::{v1, v2, v3};

/// In the order of the lists.
const LENGTHS: [usize; 7] = [
    v1::CHARACTERS,
    v2::CHARACTERS,
    v2::CHARACTERS_WITH_CODE,
    v2::BOUND_CHARACTERS,
    v2::BOUND_CHARACTERS_WITH_CODE,
    v3::CHARACTERS,
    v3::BOUND_CHARACTERS,
];

fn read(path: &str) -> Result<String> {
    fs::read_to_string(tools::workspace().join(path)).context(path.to_owned())
}

#[test]
fn every_list_of_the_lengths_of_tokens_has_those_of_the_core() -> Result<()> {
    let numbers = LENGTHS.map(|length| length.to_string());
    let [first @ .., last] = &numbers;
    let shortest_to_longest = format!("{{{},{last}}}", v1::CHARACTERS);
    let in_words = format!("{} or {last} characters", first.join(", "));
    for (path, wanted) in [
        (
            "verifier-wasm/npm/src/token/version.ts",
            format!("LENGTHS: readonly number[] = [{}]", numbers.join(", ")),
        ),
        ("verifier-wasm/npm/src/errors/reasons.mjs", in_words.clone()),
        ("verifier-core/src/error.rs", in_words),
        ("verifier-wasm/npm/src/handler/in_page/keeping.page.js", shortest_to_longest.clone()),
        (
            "verifier-wasm/npm/src/handler/in_page/keeping.page.js",
            format!("new Uint8Array({last})"),
        ),
        ("verifier-wasm/npm/src/handler/in_page/opening.page.js", shortest_to_longest),
        (
            "verifier-wasm/npm/src/handler/in_page/opening.page.js",
            format!(
                r"/^[\w-]{{{}}}(?:[\w-]{{{}}})?$/",
                v3::CHARACTERS,
                v3::BOUND_CHARACTERS - v3::CHARACTERS
            ),
        ),
    ] {
        let text = read(path)?;
        ensure!(text.contains(&wanted), "{path} does not say {wanted}");
    }
    Ok(())
}

#[test]
fn a_damaged_link_is_mended_to_every_length_of_a_token() -> Result<()> {
    let text = read("verifier-wasm/npm/src/handler/mending.ts")?;
    let (_, rest) = text.split_once("const BEGINNINGS").context("the lengths")?;
    let (_, rest) = rest.split_once(" = [").context("their list")?;
    let (list, _) = rest.split_once("\n];").context("its end")?;
    let in_brackets = list.lines().filter_map(|line| line.rsplit_once(", [")?.1.split(']').next());
    let mut found: Vec<usize> = in_brackets
        .flat_map(|lengths| lengths.split(", "))
        .map(|length| length.parse().context("a length"))
        .collect::<Result<_>>()?;
    found.sort_unstable();
    assert_eq!(found, LENGTHS);
    ensure!(text.contains(&format!("const OF_V1 = [{}];", v1::CHARACTERS)));
    Ok(())
}
