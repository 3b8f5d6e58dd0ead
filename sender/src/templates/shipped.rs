//! The templates that are shipped: for every action that a new installation has, in every language
//! of the package's pages.

use std::fs;
use std::path::Path;

use mailroom_mail::Error;

/// What all languages share, and the mails of each language.
macro_rules! shipped {
    ($($language:literal),+ $(,)?) => {
        &[
            shipped!(@ "brand.txt"),
            shipped!(@ "layout.html"),
            shipped!(@ "layout.subject.txt"),
            shipped!(@ "layout.txt"),
            $(
                shipped!(@ $language, "/activate.mail"),
                shipped!(@ $language, "/change_email.mail"),
                shipped!(@ $language, "/invite.mail"),
                shipped!(@ $language, "/notice.mail"),
                shipped!(@ $language, "/recover.mail"),
                shipped!(@ $language, "/sign_in.mail"),
                shipped!(@ $language, "/words.txt"),
            )+
        ]
    };
    (@ $($part:literal),+) => {
        (concat!($($part),+), include_str!(concat!("../../templates/", $($part),+)))
    };
}

/// Names and texts.
pub(crate) const SHIPPED: &[(&str, &str)] =
    shipped!["de", "en", "es", "fr", "it", "nl", "pl", "pt"];

/// Writes the shipped templates into a new or empty folder.
///
/// # Errors
/// A folder that has something in it, or that cannot be written.
pub fn write_shipped(folder: &Path) -> Result<(), Error> {
    let shown = folder.display().to_string();
    let failed = |error| Error::failure(format!("{shown} cannot be written: {error}"));
    fs::create_dir_all(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(Error::configuration(format!(
            "{shown} is not empty, and nothing in it is overwritten"
        )));
    }
    for (name, text) in SHIPPED {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(failed)?;
        fs::write(path, text).map_err(failed)?;
    }
    Ok(())
}
