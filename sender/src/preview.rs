//! `mailroom send --preview`: what people will get, to look at.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use mailroom_mail::Error;

use crate::config::Config;
use crate::message;
use crate::writer::Writer;

/// Writes a mail of every template to a folder, as `.eml`, `.html` and `.txt`, and `index.html`,
/// which shows them at two widths.
///
/// # Errors
/// A configuration that cannot be used, a folder that cannot be written.
pub fn preview(config: &Path, folder: &Path) -> Result<usize, Error> {
    let (_, samples) = Writer::with_samples(&Config::read(config)?)?;
    let failed = |error| Error::failure(format!("{} cannot be written: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    let mut page = String::from(BEGIN);
    for sample in &samples {
        let (name, mail) = (sample.name(), &sample.mail);
        let files = [
            ("eml", message::encode(mail)),
            ("html", mail.html.clone()),
            ("txt", mail.text.clone()),
        ];
        for (ending, text) in files {
            fs::write(folder.join(format!("{name}.{ending}")), text).map_err(failed)?;
        }
        let name = escape(&name);
        let subject = escape(mail.subject.as_str());
        let text = escape(&mail.text);
        write!(
            page,
            "<h2>{name}: {subject}</h2>\n<p><a href=\"{name}.eml\">{name}.eml</a></p>\n<div>\n\
             <iframe title=\"{name} on a telephone\" src=\"{name}.html\" width=\"360\" \
             height=\"640\" sandbox></iframe>\n\
             <iframe title=\"{name} on a screen\" src=\"{name}.html\" width=\"720\" height=\"640\" \
             sandbox></iframe>\n\
             </div>\n<pre>{text}</pre>\n"
        )
        .expect("a string takes all that is written");
    }
    fs::write(folder.join("index.html"), page + "</main></body></html>\n").map_err(failed)?;
    Ok(samples.len())
}

const BEGIN: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Mails \
                     of mailroom send</title>\n\
                     <meta name=\"viewport\" content=\"width=device-width\">\n\
                     <style>:root { font: 16px system-ui, sans-serif; color-scheme: light dark; \
                     background: Canvas; } iframe { border: 1px solid gray; box-sizing: \
                     border-box; max-width: 100%; } pre { white-space: pre-wrap; overflow-wrap: \
                     anywhere; }</style></head><body><main>\n<h1>Mails</h1>\n";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
