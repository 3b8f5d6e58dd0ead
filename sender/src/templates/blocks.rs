//! Blocks of the mails of one file.

use std::collections::BTreeSet;

use mailroom_mail::Error;
use minijinja::Environment;

use super::{MAIL, Part};

/// Finds a block of a mail of one file that nothing shows: what is misspelt would be left out of
/// the mail, and nobody would miss it.
pub(super) fn check(environment: &Environment<'_>, names: &BTreeSet<String>) -> Result<(), Error> {
    // That a layout is missing is told when a mail is filled in.
    if !Part::ALL.iter().all(|part| names.contains(part.layout())) {
        return Ok(());
    }
    let blocks_of = |name: &String| {
        let template = environment.get_template(name).expect("it was added");
        defined_in(template.source())
    };
    let (mails, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.ends_with(MAIL));
    let shown: BTreeSet<_> =
        others.into_iter().flat_map(blocks_of).map(|(block, _)| block).collect();
    for name in mails {
        // What is in another block is shown there.
        let outer = blocks_of(name).into_iter().filter(|(_, depth)| *depth == 0);
        if let Some((block, _)) = outer.into_iter().find(|(block, _)| !shown.contains(block)) {
            let all: Vec<_> = shown.iter().map(String::as_str).collect();
            return Err(Error::configuration(format!(
                "the template {name} has the block {block}, which no layout shows; they show {}",
                all.join(", ")
            )));
        }
    }
    Ok(())
}

/// The blocks that a template defines, and in how many others each is.
fn defined_in(source: &str) -> Vec<(String, usize)> {
    let mut parts = source.split("{#");
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |text, comment| {
        text + comment.split_once("#}").map_or("", |(_, behind)| behind)
    });
    let (mut found, mut depth) = (Vec::new(), 0_usize);
    for tag in text.split("{%").skip(1) {
        let mut words = tag.trim_start_matches(['-', '+']).split_whitespace();
        match words.next() {
            Some("block") => {
                let name = words.next().unwrap_or_default();
                let name = name.split(['-', '+', '%']).next().unwrap_or_default();
                found.push((name.to_owned(), depth));
                depth += 1;
            }
            Some(end) if end.starts_with("endblock") => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}
