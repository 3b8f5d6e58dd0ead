//! Templates: for each language a folder, in it for each action a subject, a text and an HTML body.
//!
//! `LANGUAGE/ACTION.subject.txt`, `LANGUAGE/ACTION.txt`, `LANGUAGE/ACTION.html`; other files of these endings can be included.
//! Undefined variables are errors, and files that end in `.html` escape what they show. `LANGUAGE/ACTION.sample.json` is the payload
//! with which the templates are tried.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};

use crate::error::Error;

/// The actions that every collector sends.
pub(crate) const ACTIONS: [&str; 2] = ["activate", "recover"];

/// How the names of payloads end that templates are tried with.
const SAMPLE: &str = ".sample.json";

/// The largest template, in bytes.
const LARGEST: u64 = 262_144;

/// The templates that are shipped, by their paths.
pub(crate) const SHIPPED: [(&str, &str); 7] = [
    ("layout.html", include_str!("../templates/layout.html")),
    ("en/activate.subject.txt", include_str!("../templates/en/activate.subject.txt")),
    ("en/activate.txt", include_str!("../templates/en/activate.txt")),
    ("en/activate.html", include_str!("../templates/en/activate.html")),
    ("en/recover.subject.txt", include_str!("../templates/en/recover.subject.txt")),
    ("en/recover.txt", include_str!("../templates/en/recover.txt")),
    ("en/recover.html", include_str!("../templates/en/recover.html")),
];

/// What templates can show.
#[derive(Debug)]
pub(crate) struct Variables<'a> {
    /// What people know the site as.
    pub(crate) product: &'a str,
    /// The folder of the template: `en`.
    pub(crate) language: &'a str,
    /// `activate`, `recover` or another action.
    pub(crate) action: &'a str,
    /// The link; empty for a mail without one.
    pub(crate) link: &'a str,
    /// The code that the person types to complete the action; empty for an action without one.
    pub(crate) code: &'a str,
    /// The recipient's address.
    pub(crate) email: &'a str,
    /// The account's name, on one line. A stranger may have chosen it.
    pub(crate) login: &'a str,
    /// Until when the link works: `2026-11-22 14:35 UTC`, or nothing if it carries no time that can be written.
    pub(crate) expires: &'a str,
    /// What the application says for this mail.
    pub(crate) payload: &'a serde_json::Value,
}

impl Variables<'_> {
    fn context(&self) -> Value {
        let Self { product, language, action, link, code, email, login, expires, payload } = *self;
        // Made of characters that mean nothing in HTML (`Links`), it would only get unreadable.
        let link = Value::from_safe_string(link.to_owned());
        let payload = Value::from(Serde(payload));
        context! { product, language, action, link, code, email, login, expires, payload }
    }
}

/// The three texts of a mail.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) html: String,
}

/// All templates, parsed.
#[derive(Debug)]
pub(crate) struct Templates {
    environment: Environment<'static>,
    /// Each language and action for which there are templates.
    mails: BTreeSet<(String, String)>,
    /// Payloads to try them with, by the names of their files.
    samples: BTreeMap<String, serde_json::Value>,
}

impl Templates {
    /// Reads the templates of a folder, or takes those that are shipped.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, a language that lacks an action or one of its three files.
    pub(crate) fn read(folder: Option<&Path>) -> Result<Self, Error> {
        match folder {
            Some(folder) => Self::parse(files(folder)?, &folder.display().to_string()),
            None => Self::parse(SHIPPED.map(|(name, text)| (name.to_owned(), text.to_owned())), "shipped"),
        }
    }

    fn parse(files: impl IntoIterator<Item = (String, String)>, shown: &str) -> Result<Self, Error> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
        environment.set_syntax(syntax.build().expect("the delimiters are the usual ones"));
        environment.set_auto_escape_callback(
            |name| {
                if is_html(name) { AutoEscape::Html } else { AutoEscape::None }
            },
        );
        let mut names = BTreeSet::new();
        let mut samples = BTreeMap::new();
        for (name, text) in files {
            if name.ends_with(SAMPLE) {
                let sample = serde_json::from_str(&text)
                    .map_err(|error| Error::configuration(format!("{name} is not JSON: {error}")))?;
                samples.insert(name, sample);
                continue;
            }
            names.insert(name.clone());
            environment
                .add_template_owned(name, text)
                .map_err(|error| Error::configuration(format!("a template cannot be parsed: {error}")))?;
        }
        let subjects = names.iter().filter_map(|name| name.strip_suffix(".subject.txt")?.split_once('/'));
        let mut mails: BTreeSet<_> =
            subjects.map(|(language, action)| (language.to_owned(), action.to_owned())).collect();
        let languages: BTreeSet<_> =
            names.iter().filter_map(|name| name.split_once('/')).map(|(language, _)| language).collect();
        for language in languages {
            mails.extend(ACTIONS.map(|action| (language.to_owned(), action.to_owned())));
        }
        for (language, action) in &mails {
            for part in [Part::Subject, Part::Text, Part::Html] {
                let name = part.name(language, action);
                if !names.contains(&name) {
                    return Err(Error::configuration(format!("the template {name} is missing in {shown}")));
                }
            }
        }
        if mails.is_empty() {
            return Err(Error::configuration(format!("there are no templates in {shown}")));
        }
        Ok(Self { environment, mails, samples })
    }

    /// Every language and action for which there are templates.
    pub(crate) fn mails(&self) -> impl Iterator<Item = (&str, &str)> {
        self.mails.iter().map(|(language, action)| (language.as_str(), action.as_str()))
    }

    /// Whether there are templates in this language.
    pub(crate) fn has_language(&self, language: &str) -> bool {
        self.mails.iter().any(|(other, _)| other == language)
    }

    /// Whether there are templates for this action in this language.
    pub(crate) fn has_mail(&self, language: &str, action: &str) -> bool {
        self.mails().any(|mail| mail == (language, action))
    }

    /// The payload to try templates with; null if there is none.
    pub(crate) fn sample(&self, language: &str, action: &str) -> serde_json::Value {
        self.samples.get(&Self::sample_name(language, action)).cloned().unwrap_or_default()
    }

    /// The name of the file that has it.
    pub(crate) fn sample_name(language: &str, action: &str) -> String {
        format!("{language}/{action}{SAMPLE}")
    }

    /// Fills in the templates of the variables' language and action.
    ///
    /// # Errors
    /// No such templates, an undefined variable, another error of a template; never with a value of a variable.
    pub(crate) fn render(&self, variables: &Variables<'_>) -> Result<Rendered, String> {
        let context = variables.context();
        let render = |part: Part| {
            let name = part.name(variables.language, variables.action);
            let template =
                self.environment.get_template(&name).map_err(|_| format!("there is no template {name}"))?;
            template.render(context.clone()).map_err(|error| {
                // Details and causes may quote values.
                let line = error.line().map(|line| format!(", line {line}")).unwrap_or_default();
                let place = error.name().unwrap_or(&name);
                format!("the template {place}{line} cannot be filled in: {}", error.kind())
            })
        };
        Ok(Rendered { subject: render(Part::Subject)?, text: render(Part::Text)?, html: render(Part::Html)? })
    }
}

/// Writes the shipped templates into a new or empty folder.
///
/// # Errors
/// A folder that has something in it, or that cannot be written.
pub fn write_shipped(folder: &Path) -> Result<(), Error> {
    let shown = folder.display().to_string();
    let failed = |error| Error::failure(format!("{shown} cannot be written: {error}"));
    fs::create_dir_all(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(Error::configuration(format!("{shown} is not empty, and nothing in it is overwritten")));
    }
    for (name, text) in SHIPPED {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(failed)?;
        fs::write(path, text).map_err(failed)?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Part {
    Subject,
    Text,
    Html,
}

impl Part {
    fn name(self, language: &str, action: &str) -> String {
        let ending = match self {
            Self::Subject => "subject.txt",
            Self::Text => "txt",
            Self::Html => "html",
        };
        format!("{language}/{action}.{ending}")
    }
}

fn is_html(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "html")
}

/// The templates of a folder and of the folders in it, by their names.
fn files(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut files = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            let language = file_name(&path)?;
            for path in entries(&path)? {
                read(&path, &format!("{language}/{}", file_name(&path)?), &mut files)?;
            }
        } else {
            read(&path, &file_name(&path)?, &mut files)?;
        }
    }
    Ok(files)
}

fn read(path: &Path, name: &str, files: &mut Vec<(String, String)>) -> Result<(), Error> {
    let failed = |reason: String| Error::configuration(format!("the template {} {reason}", path.display()));
    if !name.ends_with(SAMPLE)
        && !path.extension().is_some_and(|extension| extension == "txt" || extension == "html")
    {
        return Ok(());
    }
    let size = fs::metadata(path).map_err(|error| failed(format!("cannot be read: {error}")))?.len();
    if size > LARGEST {
        return Err(failed(format!("is larger than {LARGEST} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
    files.push((name.to_owned(), text));
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error| {
        Error::configuration(format!("the folder of templates {} cannot be read: {error}", folder.display()))
    };
    fs::read_dir(folder).map_err(failed)?.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}

fn file_name(path: &Path) -> Result<String, Error> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned)
        .ok_or_else(|| Error::configuration(format!("the name of {} is not UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables<'a>(action: &'a str, login: &'a str) -> Variables<'a> {
        Variables {
            product: "Example",
            language: "en",
            action,
            link: "https://example.org/x?token=t",
            code: "01234",
            email: "ada@x.test",
            login,
            expires: "2026-11-22 14:35 UTC",
            payload: &serde_json::Value::Null,
        }
    }

    fn with(change: &[(&str, &str)]) -> Result<Templates, Error> {
        let mut files: BTreeMap<_, _> =
            SHIPPED.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        for (name, text) in change {
            files.insert((*name).to_owned(), (*text).to_owned());
        }
        Templates::parse(files, "tests")
    }

    #[test]
    fn the_shipped_mails_have_the_link_and_recoveries_have_the_code_and_neither_has_what_a_stranger_chose() {
        let templates = Templates::read(None).unwrap();
        for action in ACTIONS {
            let mail = templates.render(&variables(action, "WIN MONEY http://evil.test")).unwrap();
            for body in [&mail.text, &mail.html] {
                assert!(body.contains("https://example.org/x?token=t"), "{body}");
                assert_eq!(body.contains("01234"), action == "recover", "{body}");
                assert!(!body.contains("WIN MONEY"), "{body}");
                assert!(!body.contains("<img") && !body.contains("src=") && !body.contains("{{"), "{body}");
            }
            assert!(mail.subject.contains("Example"), "{}", mail.subject);
        }
    }

    #[test]
    fn html_escapes_and_text_does_not() {
        let login = "<script>\"&'";
        let templates =
            with(&[("en/activate.html", "{{ login }}"), ("en/activate.txt", "{{ login }}")]).unwrap();
        let mail = templates.render(&variables("activate", login)).unwrap();
        assert_eq!((mail.html.as_str(), mail.text.as_str()), ("&lt;script&gt;&quot;&amp;&#x27;", login));
        let evil = templates.render(&variables("activate", "{{ product }}{% include 'x' %}")).unwrap();
        assert_eq!(evil.text, "{{ product }}{% include 'x' %}");
    }

    #[test]
    fn a_template_that_does_not_parse_or_is_missing_is_named() {
        for (name, text, expected) in [
            ("en/activate.txt", "{% if %}", "en/activate.txt"),
            ("en/activate.txt", "{{ login", "en/activate.txt"),
            ("de/activate.txt", "x", "de/activate.subject.txt is missing"),
            ("en/invite.subject.txt", "x", "en/invite.txt is missing"),
        ] {
            let error = with(&[(name, text)]).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        assert!(Templates::parse([], "tests").unwrap_err().to_string().contains("no templates"));
    }

    #[test]
    fn an_unknown_variable_is_an_error_that_names_the_template_and_no_value() {
        for text in [
            "{{ logn }}",
            "{{ login.first }}",
            "{% include 'nothing.txt' %}",
            "{{ login | nothing }}",
            "{{ login + 1 }}",
        ] {
            let templates = with(&[("en/activate.txt", text)]);
            let error = match templates {
                Ok(templates) => templates.render(&variables("activate", "ada-lovelace")).unwrap_err(),
                Err(error) => error.to_string(),
            };
            assert!(error.contains("en/activate.txt") && !error.contains("lovelace"), "{error}");
        }
        let unknown = Templates::read(None).unwrap().render(&variables("invite", "x")).unwrap_err();
        assert_eq!(unknown, "there is no template en/invite.subject.txt");
    }

    #[test]
    fn a_template_shows_what_the_application_says_and_a_sample_of_it_is_json() {
        let mail = [
            ("en/invite.subject.txt", "Join {{ payload.team }}"),
            ("en/invite.txt", "{{ link }} {{ payload.team }}"),
            ("en/invite.html", "<p>{{ payload.team }}</p>"),
            ("en/invite.sample.json", r#"{"team": "A & B"}"#),
        ];
        let templates = with(&mail).unwrap();
        let payload = templates.sample("en", "invite");
        let rendered =
            templates.render(&Variables { payload: &payload, ..variables("invite", "ada") }).unwrap();
        assert_eq!((rendered.subject.as_str(), rendered.html.as_str()), ("Join A & B", "<p>A &amp; B</p>"));
        let error = templates.render(&variables("invite", "ada")).err().unwrap();
        assert_eq!(error, "the template en/invite.subject.txt, line 1 cannot be filled in: undefined value");
        assert!(!templates.has_mail("de", "invite") && templates.has_mail("en", "invite"));
        let error = with(&[("en/invite.sample.json", "{")]).unwrap_err().to_string();
        assert!(error.contains("en/invite.sample.json is not JSON"), "{error}");
    }

    #[test]
    fn the_written_templates_are_the_shipped_ones_and_overwrite_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("new/templates");
        write_shipped(&target).unwrap();
        let templates = Templates::read(Some(&target)).unwrap();
        assert!(templates.has_language("en") && !templates.has_language("de"));
        assert_eq!(templates.mails().count(), 2);
        assert!(write_shipped(&target).unwrap_err().to_string().contains("is not empty"));
    }

    #[test]
    fn a_folder_with_files_that_cannot_be_templates_is_described() {
        let folder = tempfile::tempdir().unwrap();
        write_shipped(folder.path()).unwrap();
        for (text, expected) in [(vec![0xff], "cannot be read"), (vec![b'a'; 262_145], "is larger than")] {
            fs::write(folder.path().join("en/activate.txt"), text).unwrap();
            let error = Templates::read(Some(folder.path())).unwrap_err().to_string();
            assert!(error.contains("en/activate.txt") && error.contains(expected), "{error}");
        }
        let error = Templates::read(Some(&folder.path().join("nothing"))).unwrap_err().to_string();
        assert!(error.contains("nothing cannot be read"), "{error}");
    }
}
