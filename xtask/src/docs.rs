//! `cargo xtask docs`: builds the book of the folder `docs` with mdBook.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use mailroom_tests::tools::{target_folder, workspace};

use crate::execute::watch;
use crate::{node, tools};

/// The version that builds the book. Another one may want another configuration.
const MDBOOK: &str = "0.5.4";

/// Where files of the repository are read that are not pages of the book.
const REPOSITORY: &str = "https://github.com/mailroom/mailroom/blob/main";

/// The folder of the book in the repository.
const DOCS: &str = "docs";

/// What makes its pictures.
const PICTURES: &str = "xtask/pictures";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Make the pictures of docs/pictures from the screenshots that the browser tests have left
    #[arg(long)]
    pictures: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.pictures {
        return make_pictures();
    }
    let built = target_folder().join("book");
    // Neither its server nor its watcher of files is used.
    let options = ["--no-default-features", "--features", "search"];
    let mut builder = Command::new(tools::installed("mdbook", MDBOOK, &options)?);
    builder.arg("build").arg(workspace().join(DOCS)).arg("--dest-dir").arg(&built);
    watch(&mut builder, "build the book")?;
    let mut pages = Vec::new();
    collect(&built, &mut pages)?;
    for page in &pages {
        let text = fs::read_to_string(page)?;
        let folder = page.strip_prefix(&built)?.parent().unwrap_or(Path::new(""));
        let linked = outward_links(&text, folder, &|path| workspace().join(path).exists());
        if linked != text {
            fs::write(page, linked)?;
        }
    }
    println!("{}: {} pages", built.join("index.html").display(), pages.len());
    Ok(ExitCode::SUCCESS)
}

/// Makes what `docs/pictures` has, apart from the drawings.
fn make_pictures() -> Result<ExitCode> {
    node::install(PICTURES)?;
    let mut command = node::command()?;
    command.arg(workspace().join(PICTURES).join("make.mjs"));
    command.arg(target_folder().join("consumers")).arg(workspace().join(DOCS).join("pictures"));
    watch(&mut command, "make the pictures")?;
    Ok(ExitCode::SUCCESS)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            found.push(path);
        }
    }
    Ok(())
}

/// Lets links that lead out of the book, such as `../../packaging/send.toml`, lead to the
/// repository. `folder` is the page's in the book. mdBook has made `.html` of `.md`.
fn outward_links(text: &str, folder: &Path, exists: &dyn Fn(&Path) -> bool) -> String {
    let mut linked = String::with_capacity(text.len());
    let mut parts = text.split("href=\"");
    linked.push_str(parts.next().unwrap_or_default());
    for part in parts {
        linked.push_str("href=\"");
        let (address, rest) = part.split_once('"').unwrap_or((part, ""));
        let (path, fragment) = address.split_once('#').unwrap_or((address, ""));
        match outside(&Path::new(DOCS).join(folder).join(path)) {
            Some(target) if address.starts_with("../") => {
                let source = target.with_extension("md");
                let is_page = target.extension().is_some_and(|end| end == "html");
                let target = if is_page && exists(&source) { source } else { target };
                linked.push_str(REPOSITORY);
                linked.push('/');
                linked.push_str(&target.to_string_lossy());
                if !fragment.is_empty() {
                    linked.push('#');
                    linked.push_str(fragment);
                }
            }
            _ => linked.push_str(address),
        }
        linked.push('"');
        linked.push_str(rest);
    }
    linked
}

/// The path from the repository's root without `..`, if it lies beside the folder of the book.
fn outside(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            // Out of the repository; otherwise a folder has been left.
            Component::ParentDir if !plain.pop() => return None,
            Component::Normal(name) => plain.push(name),
            _ => {}
        }
    }
    (!plain.as_os_str().is_empty() && !plain.starts_with(DOCS)).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_lead_to_the_repository() {
        let exists = |path: &Path| path == Path::new("migrations/README.md");
        let linked = |address: &str, folder: &str| {
            outward_links(&format!("<a href=\"{address}\">x</a>"), Path::new(folder), &exists)
        };
        for (address, folder, expected) in [
            ("../../packaging/send.toml", "operate", "/packaging/send.toml"),
            ("../../migrations/README.html#the-way", "operate", "/migrations/README.md#the-way"),
        ] {
            let expected = format!("<a href=\"{REPOSITORY}{expected}\">x</a>");
            assert_eq!(linked(address, folder), expected);
        }
        for (address, folder) in [
            ("../reference/sql.html#redeeming", "operate"),
            ("sql.html", "reference"),
            ("#here", "reference"),
            ("https://example.org/../x", "reference"),
            ("../index.html", "reference"),
        ] {
            assert_eq!(linked(address, folder), format!("<a href=\"{address}\">x</a>"));
        }
    }
}
