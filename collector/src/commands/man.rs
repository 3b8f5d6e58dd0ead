//! `mailroom man`: writes the manual pages.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::{CommandError, Outcome, print};

#[derive(clap::Args)]
pub(crate) struct ManArguments {
    /// Folder for the pages, which is made; mailroom.1 is that of the program
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes the pages of the program, whose command line is `root`.
pub(crate) fn run(arguments: &ManArguments, root: Command) -> Outcome {
    let folder = &arguments.folder;
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let mut count = 0;
    fs::create_dir_all(folder)
        .and_then(|()| write_pages(root, folder, &mut count))
        .map_err(CommandError::because(format!("{} cannot be written", folder.display())))?;
    print(format_args!("{count} pages in {}", folder.display()))
}

fn write_pages(command: Command, folder: &Path, count: &mut usize) -> io::Result<()> {
    for below in command.get_subcommands().cloned() {
        write_pages(below, folder, count)?;
    }
    let closing = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_commands = command.has_subcommands();
    let man = Man::new(command).manual("Mailroom");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    closing_section(&closing).to_writer(&mut page)?;
    let mut file = File::create(folder.join(man.get_filename()))?;
    file.write_all(&page)?;
    *count += 1;
    Ok(())
}

/// Examples and exit statuses, whose lines are not joined.
fn closing_section(text: &str) -> Roff {
    let mut roff = Roff::default();
    let mut is_open = false;
    for line in text.lines() {
        if let Some(heading) = line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            if is_open {
                roff.control("fi", []);
            }
            roff.control("SH", [heading.to_uppercase().as_str()]);
            roff.control("nf", []);
            is_open = true;
        } else {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
    }
    if is_open {
        roff.control("fi", []);
    }
    roff
}
