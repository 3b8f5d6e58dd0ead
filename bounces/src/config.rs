//! The configuration: one file in TOML. Relative paths in it start from its folder.
//! It holds no secret.

use std::fs;
use std::path::{Path, PathBuf};

use mailroom_mail::toml_file::{self, Table};
use mailroom_mail::{ReturnPath, Secret};
use serde::Deserialize;

use crate::Error;
use crate::provider::Provider;
use crate::provider::postmark::Postmark;
use crate::provider::resend::Resend;
use crate::provider::ses::Ses;

/// Everything that can be configured: a table for each provider whose notifications are taken.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    #[serde(skip)]
    folder: PathBuf,
    resend: Option<ResendConfig>,
    postmark: Option<PostmarkConfig>,
    ses: Option<SesConfig>,
    mail: Option<MailConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResendConfig {
    /// The file of the webhook's signing secret, `whsec_…`.
    secret_file: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PostmarkConfig {
    /// What the webhook authenticates with.
    username: String,
    /// The file of its password.
    password_file: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SesConfig {
    /// The topics of Amazon SNS whose messages are taken.
    topics: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MailConfig {
    /// As in the table `[smtp]` of the sender.
    return_path: String,
    return_path_secret_file: PathBuf,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// A file that cannot be read or is no TOML; an unknown, missing or repeated setting.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let shown = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| Error(format!("{shown} cannot be read: {error}")))?;
        let tables = [
            Table::of::<Self>(""),
            Table::of::<ResendConfig>("resend"),
            Table::of::<PostmarkConfig>("postmark"),
            Table::of::<SesConfig>("ses"),
            Table::of::<MailConfig>("mail"),
        ];
        let mut config: Self = toml_file::parse(&text, &tables)
            .map_err(|fault| Error(format!("{shown} cannot be used: {fault}")))?;
        path.parent().unwrap_or(Path::new("")).clone_into(&mut config.folder);
        Ok(config)
    }

    /// Those that are configured.
    ///
    /// # Errors
    /// None, or a secret that cannot be used.
    pub(crate) fn providers(&self) -> Result<Vec<Box<dyn Provider>>, Error> {
        let mut providers: Vec<Box<dyn Provider>> = Vec::new();
        if let Some(ResendConfig { secret_file }) = &self.resend {
            providers.push(Box::new(Resend::new(
                self.secret("[resend] secret", secret_file)?.expose(),
            )?));
        }
        if let Some(PostmarkConfig { username, password_file }) = &self.postmark {
            let password = self.secret("[postmark] password", password_file)?;
            providers.push(Box::new(Postmark::new(username, password.expose())?));
        }
        if let Some(SesConfig { topics }) = &self.ses {
            providers.push(Box::new(Ses::new(topics)?));
        }
        if providers.is_empty() {
            return Err(Error(
                "the configuration names no provider: add [postmark], [resend] or [ses]".to_owned(),
            ));
        }
        Ok(providers)
    }

    /// The return addresses that mails come to.
    ///
    /// # Errors
    /// None, or a secret that cannot be used.
    pub(crate) fn return_path(&self) -> Result<ReturnPath, Error> {
        let Some(MailConfig { return_path, return_path_secret_file }) = &self.mail else {
            return Err(Error("--mail needs the table [mail] in the configuration".to_owned()));
        };
        let secret = self.secret("[mail] return_path_secret", return_path_secret_file)?;
        ReturnPath::new(return_path, secret.expose())
            .map_err(|error| Error(format!("[mail] {error}")))
    }

    /// The secret of a setting that ends with `_file`.
    fn secret(&self, setting: &str, file: &Path) -> Result<Secret, Error> {
        Secret::read(setting, Some(&self.folder.join(file)), None)
            .map_err(|error| Error(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn providers(text: &str, secret: &[u8]) -> Result<Vec<&'static str>, Error> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), secret).unwrap();
        let path = folder.path().join("bounces.toml");
        fs::write(&path, text).unwrap();
        Ok(Config::read(&path)?.providers()?.iter().map(|provider| provider.name()).collect())
    }

    const BOTH: &str = "[resend]\nsecret_file = \"secret\"\n[postmark]\nusername = \"u\"\n\
                        password_file = \"secret\"\n";

    #[test]
    fn each_table_is_a_provider_with_its_secret_beside_the_configuration() {
        assert_eq!(
            providers(BOTH, b"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\n").unwrap(),
            ["resend", "postmark"]
        );
    }

    #[test]
    fn what_is_wrong_is_one_sentence_that_repeats_no_value() {
        let resend = "[resend]\nsecret_file = \"secret\"\n";
        let postmark =
            |name: &str| format!("[postmark]\nusername = {name:?}\npassword_file = \"secret\"\n");
        for (text, secret, expected) in [
            (String::new(), &b"x"[..], "names no provider"),
            ("[resend]\nsecret = \"hunter2\"\n".to_owned(), b"x", "unknown field `secret`"),
            ("[resend]\n".to_owned(), b"x", "missing field `secret_file`"),
            (
                "[resend]\nsecret_file = [\"hunter2\"]\n".to_owned(),
                b"x",
                "line 2, `secret_file` in [resend]: invalid type",
            ),
            ("hunter2 hunter2".to_owned(), b"x", "line 1: "),
            (
                "secret_file = \"x\"\n[resend]\nsecret_file = \"x\"\n".to_owned(),
                b"x",
                "line 1: unknown field `secret_file`; it belongs in [resend]",
            ),
            (resend.to_owned(), b"hunter2", "whsec_"),
            (resend.to_owned(), b"whsec_hunter2!", "whsec_"),
            (resend.to_owned(), b"whsec_", "whsec_"),
            (resend.to_owned(), b"", "one line"),
            (resend.to_owned(), b"hunter2\nhunter2\n", "one line"),
            (resend.to_owned(), b"\xff", "cannot be read"),
            (resend.replace("\"secret\"", "\"nothing\""), b"x", "cannot be read"),
            ("[ses]\ntopics = [\"hunter2\"]\n".to_owned(), b"x", "[ses] topics"),
            (postmark(""), b"hunter2hunter2hunter2", "username"),
            (postmark("a:b"), b"hunter2hunter2hunter2", "username"),
            (postmark("a"), b"hunter2", "at least 16"),
        ] {
            let error = providers(&text, secret).unwrap_err().to_string();
            assert!(
                error.contains(expected) && !error.contains("hunter2") && !error.contains('\n'),
                "{error}"
            );
        }
    }
}
