//! Templates: for each language a folder, in it for each action a subject, a text and an HTML body.
//!
//! `LANGUAGE/ACTION.subject.txt`, `LANGUAGE/ACTION.txt`, `LANGUAGE/ACTION.html`; other files of
//! these endings can be included. Unknown variables are errors, members that a payload lacks are
//! empty. HTML bodies escape what they show, also in what they include.
//! `LANGUAGE/ACTION.sample.json` is the payload with which the templates are tried.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mailroom_mail::Error;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Object, Serde};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};

/// The actions that every collector sends.
pub(crate) const ACTIONS: [&str; 2] = ["activate", "recover"];

/// How the names of payloads end that templates are tried with.
const SAMPLE: &str = ".sample.json";

/// The largest template, in bytes.
const LARGEST: u64 = 262_144;

/// A shipped template, by its path.
macro_rules! shipped {
    ($($path:literal),+ $(,)?) => {
        [$(($path, include_str!(concat!("../templates/", $path)))),+]
    };
}

/// The templates that are shipped: for every action that a new installation has.
pub(crate) const SHIPPED: [(&str, &str); 19] = shipped![
    "layout.html",
    "en/activate.subject.txt",
    "en/activate.txt",
    "en/activate.html",
    "en/recover.subject.txt",
    "en/recover.txt",
    "en/recover.html",
    "en/change_email.subject.txt",
    "en/change_email.txt",
    "en/change_email.html",
    "en/invite.subject.txt",
    "en/invite.txt",
    "en/invite.html",
    "en/sign_in.subject.txt",
    "en/sign_in.txt",
    "en/sign_in.html",
    "en/notice.subject.txt",
    "en/notice.txt",
    "en/notice.html",
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
    /// Until when the link works: `2026-11-22 14:35 UTC`,
    /// or nothing if it carries no time that can be written.
    pub(crate) expires: &'a str,
    /// What the application says for this mail.
    pub(crate) payload: &'a serde_json::Value,
}

impl Variables<'_> {
    fn context(&self) -> Context {
        let Self { product, language, action, link, code, email, login, expires, payload } = *self;
        // Made of characters that mean nothing in HTML (`Links`), it would only get unreadable.
        let link = Value::from_safe_string(link.to_owned());
        let payload = Value::from(Serde(payload));
        let text = |text: &str| Value::from(text.to_owned());
        let values = [
            ("product", text(product)),
            ("language", text(language)),
            ("action", text(action)),
            ("link", link),
            ("code", text(code)),
            ("email", text(email)),
            ("login", text(login)),
            ("expires", text(expires)),
            ("payload", payload),
        ];
        Context { values: values.into(), unknown: Mutex::default() }
    }
}

/// The variables of a mail, and which other ones were asked for: undefined members of a payload are
/// allowed, misspelt variables are not.
#[derive(Debug)]
struct Context {
    values: BTreeMap<&'static str, Value>,
    unknown: Mutex<BTreeSet<String>>,
}

impl Object for Context {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        let value = self.values.get(name);
        if value.is_none() {
            self.unknown.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
        value.cloned()
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
    /// For subjects and texts, which escape nothing.
    plain: Environment<'static>,
    /// For HTML bodies, which escape everything, whatever the names
    /// of the templates are that they include.
    html: Environment<'static>,
    /// Each language and action for which there are templates.
    mails: BTreeSet<(String, String)>,
    /// Payloads to try them with, by the names of their files.
    samples: BTreeMap<String, serde_json::Value>,
}

impl Templates {
    /// Reads the templates of a folder, or takes those that are shipped.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, a language that lacks an action or one
    /// of its three files.
    pub(crate) fn read(folder: Option<&Path>) -> Result<Self, Error> {
        match folder {
            Some(folder) => Self::parse(files(folder)?, &folder.display().to_string()),
            None => Self::parse(
                SHIPPED.map(|(name, text)| (name.to_owned(), text.to_owned())),
                "shipped",
            ),
        }
    }

    fn parse(
        files: impl IntoIterator<Item = (String, String)>,
        shown: &str,
    ) -> Result<Self, Error> {
        let mut plain = environment(AutoEscape::None);
        let mut html = environment(AutoEscape::Html);
        let mut names = BTreeSet::new();
        let mut samples = BTreeMap::new();
        for (name, text) in files {
            if name.ends_with(SAMPLE) {
                let sample = serde_json::from_str(&text).map_err(|error| {
                    Error::configuration(format!("{name} is not JSON: {error}"))
                })?;
                samples.insert(name, sample);
                continue;
            }
            names.insert(name.clone());
            for environment in [&mut plain, &mut html] {
                environment.add_template_owned(name.clone(), text.clone()).map_err(|error| {
                    Error::configuration(format!("a template cannot be parsed: {error}"))
                })?;
            }
            check_members(&plain, &name)?;
        }
        let subjects =
            names.iter().filter_map(|name| name.strip_suffix(".subject.txt")?.split_once('/'));
        let mut mails: BTreeSet<_> =
            subjects.map(|(language, action)| (language.to_owned(), action.to_owned())).collect();
        let languages: BTreeSet<_> = names
            .iter()
            .filter_map(|name| name.split_once('/'))
            .map(|(language, _)| language)
            .collect();
        for language in languages {
            mails.extend(ACTIONS.map(|action| (language.to_owned(), action.to_owned())));
        }
        for (language, action) in &mails {
            for part in [Part::Subject, Part::Text, Part::Html] {
                let name = part.name(language, action);
                if !names.contains(&name) {
                    return Err(Error::configuration(format!(
                        "the template {name} is missing in {shown}"
                    )));
                }
            }
        }
        if mails.is_empty() {
            return Err(Error::configuration(format!("there are no templates in {shown}")));
        }
        Ok(Self { plain, html, mails, samples })
    }

    /// Every language and action for which there are templates.
    pub(crate) fn mails(&self) -> impl Iterator<Item = (&str, &str)> {
        self.mails.iter().map(|(language, action)| (language.as_str(), action.as_str()))
    }

    /// Whether there are templates in this language.
    pub(crate) fn has_language(&self, language: &str) -> bool {
        self.mails.iter().any(|(other, _)| other == language)
    }

    /// The folder of a language's tag, in whatever case, if it has templates for this action.
    pub(crate) fn language_of(&self, tag: &str, action: &str) -> Option<&str> {
        let is_it = |(language, other): &(&str, &str)| {
            language.eq_ignore_ascii_case(tag) && *other == action
        };
        self.mails().find(is_it).map(|(language, _)| language)
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
    /// No such templates, an undefined variable, another error of a template;
    /// never with a value of a variable.
    pub(crate) fn render(&self, variables: &Variables<'_>) -> Result<Rendered, String> {
        let context = Arc::new(variables.context());
        let render = |part: Part| {
            let name = part.name(variables.language, variables.action);
            let environment = if matches!(part, Part::Html) { &self.html } else { &self.plain };
            let template = environment
                .get_template(&name)
                .map_err(|_| format!("there is no template {name}"))?;
            let rendered =
                template.render(Value::from_dyn_object(context.clone())).map_err(|error| {
                    // Details and causes may quote values.
                    let line =
                        error.line().map(|line| format!(", line {line}")).unwrap_or_default();
                    let place = error.name().unwrap_or(&name);
                    format!("the template {place}{line} cannot be filled in: {}", error.kind())
                })?;
            let unknown = context.unknown.lock().unwrap_or_else(PoisonError::into_inner);
            match unknown
                .iter()
                .find(|variable| environment.globals().all(|(global, _)| global != **variable))
            {
                None => Ok(rendered),
                Some(variable) => Err(format!(
                    "the template {name} cannot be filled in: there is no variable {variable}"
                )),
            }
        };
        Ok(Rendered {
            subject: render(Part::Subject)?,
            text: render(Part::Text)?,
            html: render(Part::Html)?,
        })
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

/// What parses and fills in templates.
fn environment(escape: AutoEscape) -> Environment<'static> {
    let mut environment = Environment::new();
    // Of a payload. Whether a variable exists is for `Context` to say.
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build().expect("the delimiters are the usual ones"));
    environment.set_auto_escape_callback(move |_| escape.clone());
    environment
}

/// Checks that a template asks for members of the payload alone:
/// other variables are texts, and have none.
fn check_members(environment: &Environment<'_>, name: &str) -> Result<(), Error> {
    let template = environment.get_template(name).expect("it was added");
    let asked: BTreeSet<_> = template.undeclared_variables(true).into_iter().collect();
    let texts = ["product", "language", "action", "link", "code", "email", "login", "expires"];
    let member = asked.iter().find(|variable| {
        variable.split_once('.').is_some_and(|(variable, _)| texts.contains(&variable))
    });
    match member {
        None => Ok(()),
        Some(member) => Err(Error::configuration(format!(
            "the template {name} asks for {member}, which no text has"
        ))),
    }
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
    let failed =
        |reason: String| Error::configuration(format!("the template {} {reason}", path.display()));
    if !name.ends_with(SAMPLE)
        && !path.extension().is_some_and(|extension| extension == "txt" || extension == "html")
    {
        return Ok(());
    }
    let size =
        fs::metadata(path).map_err(|error| failed(format!("cannot be read: {error}")))?.len();
    if size > LARGEST {
        return Err(failed(format!("is larger than {LARGEST} bytes")));
    }
    let text =
        fs::read_to_string(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
    files.push((name.to_owned(), text));
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error| {
        Error::configuration(format!(
            "the folder of templates {} cannot be read: {error}",
            folder.display()
        ))
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
    fn the_shipped_mails_have_link_and_code_of_their_action_and_none_has_what_a_stranger_chose() {
        let templates = Templates::read(None).unwrap();
        for (_, action) in templates.mails() {
            let mail = templates.render(&variables(action, "WIN MONEY http://evil.test")).unwrap();
            for body in [&mail.text, &mail.html] {
                assert_eq!(
                    body.contains("https://example.org/x?token=t"),
                    action != "notice",
                    "{body}"
                );
                assert_eq!(
                    body.contains("01234"),
                    ["recover", "sign_in"].contains(&action),
                    "{body}"
                );
                assert!(!body.contains("WIN MONEY"), "{body}");
                assert!(
                    !body.contains("<img") && !body.contains("src=") && !body.contains("{{"),
                    "{body}"
                );
            }
            assert!(mail.subject.contains("Example"), "{}", mail.subject);
        }
    }

    #[test]
    fn a_notice_says_what_the_application_does_and_every_new_installations_action_has_a_mail() {
        let templates = Templates::read(None).unwrap();
        let actions: Vec<_> = templates.mails().map(|(_, action)| action).collect();
        assert_eq!(actions, ["activate", "change_email", "invite", "notice", "recover", "sign_in"]);
        let payload =
            serde_json::json!({"subject": "A new passkey", "text": "It was added to <you>."});
        let mail = Variables { payload: &payload, ..variables("notice", "ada") };
        let mail = templates.render(&mail).unwrap();
        assert_eq!(mail.subject.trim(), "A new passkey");
        assert!(
            mail.text.contains("added to <you>.") && mail.html.contains("added to &lt;you&gt;.")
        );
    }

    #[test]
    fn html_escapes_and_text_does_not() {
        let login = "<script>\"&'";
        let templates =
            with(&[("en/activate.html", "{{ login }}"), ("en/activate.txt", "{{ login }}")])
                .unwrap();
        let mail = templates.render(&variables("activate", login)).unwrap();
        assert_eq!(
            (mail.html.as_str(), mail.text.as_str()),
            ("&lt;script&gt;&quot;&amp;&#x27;", login)
        );
        let evil =
            templates.render(&variables("activate", "{{ product }}{% include 'x' %}")).unwrap();
        assert_eq!(evil.text, "{{ product }}{% include 'x' %}");
    }

    #[test]
    fn a_template_that_does_not_parse_or_is_missing_is_named() {
        for (name, text, expected) in [
            ("en/activate.txt", "{% if %}", "en/activate.txt"),
            ("en/activate.txt", "{{ login", "en/activate.txt"),
            ("de/activate.txt", "x", "de/activate.subject.txt is missing"),
            ("en/vote.subject.txt", "x", "en/vote.txt is missing"),
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
                Ok(templates) => {
                    templates.render(&variables("activate", "ada-lovelace")).unwrap_err()
                }
                Err(error) => error.to_string(),
            };
            assert!(error.contains("en/activate.txt") && !error.contains("lovelace"), "{error}");
        }
        let unknown = Templates::read(None).unwrap().render(&variables("vote", "x")).unwrap_err();
        assert_eq!(unknown, "there is no template en/vote.subject.txt");
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
        let rendered = templates
            .render(&Variables { payload: &payload, ..variables("invite", "ada") })
            .unwrap();
        assert_eq!(
            (rendered.subject.as_str(), rendered.html.as_str()),
            ("Join A & B", "<p>A &amp; B</p>")
        );
        assert_eq!(templates.language_of("de", "invite"), None);
        assert_eq!(templates.language_of("EN", "invite"), Some("en"));
        let error = with(&[("en/invite.sample.json", "{")]).unwrap_err().to_string();
        assert!(error.contains("en/invite.sample.json is not JSON"), "{error}");
    }

    #[test]
    fn what_a_payload_lacks_is_empty_and_a_variable_that_there_is_none_of_is_an_error() {
        let text = "{% if payload.by.name %}by {{ payload.by.name }}{% endif %}[{{ payload.team | \
                    default('none') }}]{% if payload.by is defined %}!{% endif %}{% for one in \
                    payload.all %}{{ one }}{% endfor %}{{ payload.x }}";
        let templates = with(&[("en/activate.txt", text)]).unwrap();
        for (payload, expected) in [
            (serde_json::json!(null), "[none]"),
            (serde_json::json!({"x": 1}), "[none]1"),
            (serde_json::json!({"by": null}), "[none]!"),
            (serde_json::json!({"by": {"name": "Bob"}, "all": [1, 2]}), "by Bob[none]!12"),
        ] {
            let variables = Variables { payload: &payload, ..variables("activate", "ada") };
            assert_eq!(templates.render(&variables).unwrap().text, expected);
        }
        for text in [
            "{% if paylod.x %}{% endif %}",
            "{{ logn }}",
            "{% set x = logn %}",
            "{{ logn is defined }}",
        ] {
            let error =
                with(&[("en/activate.txt", text)]).unwrap().render(&variables("activate", "ada"));
            let error = error.unwrap_err();
            assert!(
                error.contains("en/activate.txt cannot be filled in: there is no variable "),
                "{error}"
            );
        }
        let known = "{% set x = range(2) %}{% for y in x %}{{ loop.index }}{{ y }}{% endfor %}{% \
                     include 'en/x.txt' %}";
        let templates = with(&[("en/activate.txt", known), ("en/x.txt", "{{ x }}")]).unwrap();
        assert_eq!(templates.render(&variables("activate", "ada")).unwrap().text, "1021[0, 1]");
    }

    #[test]
    fn an_html_body_escapes_also_what_a_text_shows_that_it_includes() {
        let templates = with(&[
            ("en/greeting.txt", "Hello {{ login }}"),
            ("en/link.html", "<i>{{ login }}</i>"),
            ("en/activate.html", "{% include 'en/greeting.txt' %}"),
            ("en/activate.txt", "{% include 'en/greeting.txt' %}{% include 'en/link.html' %}"),
        ]);
        let mail = templates.unwrap().render(&variables("activate", "<img src=x>")).unwrap();
        assert_eq!(mail.html, "Hello &lt;img src=x&gt;");
        assert_eq!(mail.text, "Hello <img src=x><i><img src=x></i>");
    }

    #[test]
    fn the_written_templates_are_the_shipped_ones_and_overwrite_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("new/templates");
        write_shipped(&target).unwrap();
        let templates = Templates::read(Some(&target)).unwrap();
        assert!(templates.has_language("en") && !templates.has_language("de"));
        assert_eq!(templates.mails().count(), 6);
        assert!(write_shipped(&target).unwrap_err().to_string().contains("is not empty"));
    }

    #[test]
    fn a_folder_with_files_that_cannot_be_templates_is_described() {
        let folder = tempfile::tempdir().unwrap();
        write_shipped(folder.path()).unwrap();
        for (text, expected) in
            [(vec![0xff], "cannot be read"), (vec![b'a'; 262_145], "is larger than")]
        {
            fs::write(folder.path().join("en/activate.txt"), text).unwrap();
            let error = Templates::read(Some(folder.path())).unwrap_err().to_string();
            assert!(error.contains("en/activate.txt") && error.contains(expected), "{error}");
        }
        let error = Templates::read(Some(&folder.path().join("nothing"))).unwrap_err().to_string();
        assert!(error.contains("nothing cannot be read"), "{error}");
    }
}
