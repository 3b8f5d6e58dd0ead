//! The configuration: one file in TOML. Relative paths in it start from its folder.
//! It holds no secret.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lettre::message::Mailbox;
use mailroom_mail::Error;
use mailroom_mail::toml_file::{self, Table};
use serde::Deserialize;

use crate::link::{Links, LinksConfig};
use crate::provider::{self, Provider, for_providers};
use crate::rate::{Domains, Rate};

/// Makes the configuration, in which every provider of the registry can have a table.
macro_rules! configuration {
    ($($(#[$built:meta])* $table:ident: $Table:ty => $make:path;)+) => {
        /// Everything that can be configured, as it is written.
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct Config {
            /// Who the mails are from: `no-reply@example.org` or `Example <no-reply@example.org>`.
            pub(crate) from: String,
            /// Where answers of people go, if not to `from`.
            pub(crate) reply_to: Option<String>,
            /// What people know the site as, for the templates.
            pub(crate) product: String,
            /// The file that records which mails were sent.
            pub(crate) journal: PathBuf,
            /// The folder of the templates; those that are shipped unless given.
            pub(crate) templates: Option<PathBuf>,
            /// The folder in it whose templates are used.
            #[serde(default = "english")]
            pub(crate) language: String,
            /// The provider, of two, that is used only while the other one fails.
            pub(crate) fallback: Option<String>,
            /// Where links lead.
            pub(crate) links: LinksConfig,
            /// How many mails go to addresses of a domain.
            #[serde(default)]
            pub(crate) domain_rates: BTreeMap<String, Rate>,
            $(
                /// A provider.
                $(#[$built])*
                pub(crate) $table: Option<$Table>,
            )+
        }

        /// The tables of providers.
        fn provider_tables() -> Vec<Table> {
            vec![$($(#[$built])* Table::of::<$Table>(stringify!($table)),)+]
        }

        impl Config {
            /// Its tables of providers.
            fn providers_as_written(&self) -> provider::Tables<'_> {
                provider::Tables {
                    $(
                        $(#[$built])*
                        $table: self.$table.as_ref(),
                    )+
                }
            }

            /// Makes the paths in the tables of providers start from a folder.
            fn make_provider_paths_relative_to(&mut self, folder: &Path) {
                $(
                    $(#[$built])*
                    if let Some(table) = &mut self.$table {
                        table.make_paths_relative_to(folder);
                    }
                )+
            }
        }
    };
}

for_providers!(configuration);

/// What can stand where in the file; what stands before the first table comes first.
fn tables() -> Vec<Table> {
    let mut tables = vec![Table::of::<Config>(""), Table::of::<LinksConfig>("links")];
    tables.extend(provider_tables());
    tables
}

fn english() -> String {
    "en".to_owned()
}

impl Config {
    /// Reads a configuration and makes its paths absolute or relative to the working folder.
    ///
    /// # Errors
    /// A file that cannot be read or is no TOML; an unknown, missing or repeated setting.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let shown = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| Error::configuration(format!("{shown} cannot be read: {error}")))?;
        let mut config: Self = toml_file::parse(&text, &tables())
            .map_err(|fault| Error::configuration(format!("{shown}: {fault}")))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        config.journal = folder.join(config.journal);
        config.templates = config.templates.map(|templates| folder.join(templates));
        config.make_provider_paths_relative_to(folder);
        if config.product.trim().is_empty() || config.product.chars().any(char::is_control) {
            return Err(Error::configuration("product must be a line of text that is not empty"));
        }
        Ok(config)
    }

    pub(crate) fn from(&self) -> Result<Mailbox, Error> {
        mailbox("from", &self.from)
    }

    pub(crate) fn reply_to(&self) -> Result<Option<Mailbox>, Error> {
        self.reply_to.as_deref().map(|text| mailbox("reply_to", text)).transpose()
    }

    /// The limits by domain.
    ///
    /// # Errors
    /// What is no domain, and one that has two of them.
    pub(crate) fn domains(&self) -> Result<Domains, Error> {
        let mut rates = BTreeMap::new();
        for (domain, rate) in &self.domain_rates {
            let ascii = idna::domain_to_ascii_strict(domain).ok().filter(|ascii| !ascii.is_empty());
            let is_new = ascii.is_some_and(|ascii| rates.insert(ascii, *rate).is_none());
            if !is_new {
                return Err(Error::configuration(
                    "[domain_rates] must have domains such as \"example.org\" = \"5/s\", each once",
                ));
            }
        }
        Ok(Domains::new(rates))
    }

    /// The provider, and then the fallback, if it names one.
    ///
    /// # Errors
    /// None or too many, or settings that cannot be used.
    pub(crate) fn providers(&self) -> Result<Vec<Box<dyn Provider>>, Error> {
        provider::of(&self.providers_as_written(), self.fallback.as_deref())
    }

    pub(crate) fn links(&self) -> Result<Links, Error> {
        Links::new(&self.links)
    }
}

fn mailbox(name: &str, text: &str) -> Result<Mailbox, Error> {
    let mailbox: Option<Mailbox> = text.parse().ok();
    let is_plain = |mailbox: &Mailbox| {
        mailbox.email.to_string().is_ascii() && !text.chars().any(char::is_control)
    };
    mailbox.filter(is_plain).ok_or_else(|| {
        Error::configuration(format!(
            "{name} must be an address in ASCII, such as `no-reply@example.org` or `Example \
             <no-reply@example.org>`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::link::TokenPlace;

    fn read(text: &str) -> Result<Config, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("send.toml");
        fs::write(&path, text).unwrap();
        Config::read(&path)
    }

    const GOOD: &str = "from = \"Example <no-reply@example.org>\"\nproduct = \"Example\"\njournal \
                        = \"sent\"\n[links]\nbase = \"https://example.org\"\n";

    #[test]
    fn paths_start_from_the_folder_of_the_configuration() {
        let config = read(GOOD).unwrap();
        assert!(config.journal.is_absolute() && config.journal.ends_with("sent"));
        assert_eq!(config.from().unwrap().email.to_string(), "no-reply@example.org");
        assert_eq!(config.language, "en");
        assert_eq!(config.links.token, TokenPlace::Query);
    }

    #[test]
    fn what_is_wrong_is_one_sentence_that_repeats_no_value() {
        for (text, expected) in [
            (GOOD.replace("product", "password"), "unknown field `password`"),
            (GOOD.replace("product = \"Example\"\n", ""), "missing field `product`"),
            (GOOD.replace("\"sent\"", "\"hunter2\" \"hunter2\""), "line 3"),
            (GOOD.replace("\"sent\"", "[\"hunter2\"]"), "journal"),
            (GOOD.replace("\"Example\"", "\"\""), "product must be"),
            (GOOD.to_owned() + "token = \"hunter2\"", "unknown variant"),
            (GOOD.to_owned() + "base = \"hunter2\"", "duplicate"),
            (
                "ca_file = \"/x\"\n".to_owned() + GOOD,
                "line 1: unknown field `ca_file`; it belongs in ",
            ),
            (
                GOOD.to_owned() + "rate = \"5/s\"\n[smtp]\nserver = \"x\"",
                "`rate` in [links]; it belongs in [smtp]",
            ),
            (
                GOOD.to_owned() + "[smtp]\nserver = \"x\"\nrate = \"hunter2\"",
                "line 8, `rate` in [smtp]",
            ),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(
                error.contains(expected) && !error.contains("hunter2") && !error.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn the_documentation_has_a_row_of_every_table_and_of_no_other() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/send-config.md");
        let text = fs::read_to_string(path).unwrap();
        let (_, rest) =
            text.split_once("\n| setting | default | meaning |\n|---|---|---|\n| `from`").unwrap();
        let rows = rest.split("\n\n").next().unwrap().lines();
        let first_cells = rows.filter_map(|row| row.strip_prefix('|')?.split('|').next());
        let documented: BTreeSet<&str> = first_cells
            .flat_map(|cell| cell.split("`[").skip(1))
            .filter_map(|rest| Some(rest.split_once("]`")?.0))
            .collect();
        let tables = tables();
        let names = tables.iter().map(|table| table.name).filter(|name| !name.is_empty());
        assert_eq!(documented, names.chain(["domain_rates"]).collect());
    }

    #[test]
    fn a_sender_that_is_no_address_is_refused() {
        for from in [
            "",
            "Example",
            "a@b@c",
            "a@x.test, b@x.test",
            "ä@x.test",
            "a@x.test\\r\\nBcc: b@x.test",
        ] {
            let config = read(&GOOD.replace("Example <no-reply@example.org>", from)).unwrap();
            let error = config.from().unwrap_err().to_string();
            assert!(error.starts_with("from must be an address"), "{error}");
        }
    }
}
