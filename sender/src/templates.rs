//! Templates: for each language a folder, in it for each action one file, or three.
//!
//! `LANGUAGE/ACTION.mail` has the words of a mail, and extends the variable `layout`: in turn
//! `layout.subject.txt`, `layout.txt` and `layout.html`, which make subject, text and HTML body of
//! them. Or each of the three has a file of its own: `LANGUAGE/ACTION.subject.txt`,
//! `LANGUAGE/ACTION.txt`, `LANGUAGE/ACTION.html`. Other files of these endings can be included.
//! Unknown variables are errors, and so are blocks of a mail that no layout shows; members that a
//! payload lacks are empty. HTML bodies escape what they show, also in what they include.
//! `LANGUAGE/ACTION.sample.json` is the payload with which the templates are tried.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mailroom_mail::Error;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Object, Serde};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value};

mod blocks;
mod shipped;

pub(crate) use shipped::SHIPPED;
pub use shipped::write_shipped;

/// The actions that every collector sends.
pub(crate) const ACTIONS: [&str; 2] = ["activate", "recover"];

/// How the name of a mail ends whose three texts are made of one file.
const MAIL: &str = ".mail";

/// How the names of payloads end that templates are tried with.
const SAMPLE: &str = ".sample.json";

/// The largest template, in bytes.
const MAX_BYTES: u64 = 262_144;

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
    /// Those that are texts, and have no members, by their names; the other one is `payload`.
    fn texts(&self, layout: &str) -> [(&'static str, Value); 9] {
        let Self { product, language, action, link, code, email, login, expires, payload: _ } =
            *self;
        // Made of characters that mean nothing in HTML (`Links`), it would only get unreadable.
        let link = Value::from_safe_string(link.to_owned());
        let text = |text: &str| Value::from(text.to_owned());
        [
            ("product", text(product)),
            ("layout", text(layout)),
            ("language", text(language)),
            ("action", text(action)),
            ("link", link),
            ("code", text(code)),
            ("email", text(email)),
            ("login", text(login)),
            ("expires", text(expires)),
        ]
    }

    /// Whether the variable of this name is a text.
    fn is_text(name: &str) -> bool {
        let nothing = Variables {
            product: "",
            language: "",
            action: "",
            link: "",
            code: "",
            email: "",
            login: "",
            expires: "",
            payload: &serde_json::Value::Null,
        };
        nothing.texts("").iter().any(|(text, _)| *text == name)
    }

    fn context(&self, layout: &str) -> Context {
        let payload = Value::from(Serde(self.payload));
        let values = self.texts(layout).into_iter().chain([("payload", payload)]);
        Context { values: values.collect(), unknown: Mutex::default() }
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
    /// The names of those that one file makes.
    whole: BTreeSet<String>,
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
            None => Self::parse(SHIPPED.iter().copied().map(owned), "shipped"),
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
        let pairs = |ending: &'static str| {
            let stems = names.iter().filter_map(move |name| name.strip_suffix(ending));
            stems.filter_map(|stem| stem.split_once('/')).map(owned)
        };
        let mut mails: BTreeSet<_> = pairs(".subject.txt").chain(pairs(MAIL)).collect();
        let folders = names.iter().filter_map(|name| name.split_once('/'));
        let languages: BTreeSet<_> =
            folders.filter(|(_, file)| is_of_mail(file)).map(|(folder, _)| folder).collect();
        for language in languages {
            mails.extend(ACTIONS.map(|action| owned((language, action))));
        }
        let whole: BTreeSet<_> =
            names.iter().filter(|name| name.ends_with(MAIL)).cloned().collect();
        for (language, action) in &mails {
            let one = format!("{language}/{action}{MAIL}");
            let has_part =
                Part::ALL.iter().any(|part| names.contains(&part.name(language, action)));
            for part in Part::ALL {
                let name = part.name(language, action);
                let reason = match (whole.contains(&one), names.contains(&name)) {
                    (true, false) | (false, true) => continue,
                    (true, true) => format!("{name} and {one} are the same mail: delete one"),
                    (false, false) if has_part => {
                        format!("the template {name} is missing in {shown}")
                    }
                    (false, false) => format!("the template {one} is missing in {shown}"),
                };
                return Err(Error::configuration(reason));
            }
        }
        if mails.is_empty() {
            return Err(Error::configuration(format!(
                "there are no templates in {shown}; `mailroom send --init {shown}` writes them"
            )));
        }
        blocks::check(&plain, &names)?;
        Ok(Self { plain, html, mails, whole, samples })
    }

    /// Every language and action for which there are templates.
    pub(crate) fn mails(&self) -> impl Iterator<Item = (&str, &str)> {
        self.mails.iter().map(|(language, action)| (language.as_str(), action.as_str()))
    }

    /// Whether there are templates in this language.
    pub(crate) fn has_language(&self, language: &str) -> bool {
        self.mails.iter().any(|(other, _)| other == language)
    }

    /// The folder of a language's tag, in whatever case and with `-` or `_`, if it has templates
    /// for this action.
    pub(crate) fn language_of(&self, tag: &str, action: &str) -> Option<&str> {
        let spelt = |tag: &str| tag.replace('_', "-").to_ascii_lowercase();
        let tag = spelt(tag);
        let is_it = |(language, other): &(&str, &str)| *other == action && spelt(language) == tag;
        self.mails().find(is_it).map(|(language, _)| language)
    }

    /// The payload to try templates with; null if there is none.
    pub(crate) fn sample(&self, language: &str, action: &str) -> serde_json::Value {
        self.samples.get(&sample_name(language, action)).cloned().unwrap_or_default()
    }

    /// Says where that payload is from.
    pub(crate) fn about_sample(&self, language: &str, action: &str) -> String {
        let file = sample_name(language, action);
        if self.samples.contains_key(&file) {
            format!("{file} is what it gets as `payload` here")
        } else {
            format!("its `payload` is null here, as there is no {file}")
        }
    }

    /// Fills in the templates of the variables' language and action.
    ///
    /// # Errors
    /// No such templates, an undefined variable, another error of a template;
    /// never with a value of a variable.
    pub(crate) fn render(&self, variables: &Variables<'_>) -> Result<Rendered, String> {
        let one = format!("{}/{}{MAIL}", variables.language, variables.action);
        let render = |part: Part| {
            let context = Arc::new(variables.context(part.layout()));
            let name = if self.whole.contains(&one) {
                one.clone()
            } else {
                part.name(variables.language, variables.action)
            };
            let environment = if matches!(part, Part::Html) { &self.html } else { &self.plain };
            let template = environment
                .get_template(&name)
                .map_err(|_| format!("there is no template {name}"))?;
            let rendered = template.render(Value::from_dyn_object(context.clone()));
            let unknown = context.unknown.lock().unwrap_or_else(PoisonError::into_inner);
            let is_unknown = |variable: &&String| {
                environment.globals().all(|(global, _)| global != variable.as_str())
            };
            // First, as it may be why the rest failed: `extends` of what there is none of.
            if let Some(variable) = unknown.iter().find(is_unknown) {
                let all: Vec<_> = context.values.keys().copied().collect();
                return Err(format!(
                    "the template {name} cannot be filled in: there is no variable {variable}; \
                     there are {}",
                    all.join(", ")
                ));
            }
            rendered.map_err(|error| {
                // Details and causes may quote values.
                let line = error.line().map(|line| format!(", line {line}")).unwrap_or_default();
                let place = error.name().unwrap_or(&name);
                let reason = match error.kind() {
                    ErrorKind::TemplateNotFound => {
                        "it extends, imports or includes a file that is not there".to_owned()
                    }
                    kind => kind.to_string(),
                };
                format!("the template {place}{line} cannot be filled in: {reason}")
            })
        };
        Ok(Rendered {
            subject: render(Part::Subject)?,
            text: render(Part::Text)?,
            html: render(Part::Html)?,
        })
    }
}

#[derive(Clone, Copy)]
enum Part {
    Subject,
    Text,
    Html,
}

impl Part {
    const ALL: [Self; 3] = [Self::Subject, Self::Text, Self::Html];

    /// What a mail of one file extends.
    fn layout(self) -> &'static str {
        match self {
            Self::Subject => "layout.subject.txt",
            Self::Text => "layout.txt",
            Self::Html => "layout.html",
        }
    }

    /// The file of a mail that has one for each part.
    fn name(self, language: &str, action: &str) -> String {
        let ending = match self {
            Self::Subject => "subject.txt",
            Self::Text => "txt",
            Self::Html => "html",
        };
        format!("{language}/{action}.{ending}")
    }
}

/// Whether a file makes its folder that of a language. Others may have what templates include.
fn is_of_mail(file: &str) -> bool {
    let is_part = |action: &str| {
        file.strip_prefix(action).is_some_and(|ending| [".txt", ".html"].contains(&ending))
    };
    file.ends_with(MAIL) || file.ends_with(".subject.txt") || ACTIONS.into_iter().any(is_part)
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

fn owned((first, second): (&str, &str)) -> (String, String) {
    (first.to_owned(), second.to_owned())
}

/// Checks that a template asks for members of the payload alone:
/// other variables are texts, and have none.
fn check_members(environment: &Environment<'_>, name: &str) -> Result<(), Error> {
    let template = environment.get_template(name).expect("it was added");
    let asked: BTreeSet<_> = template.undeclared_variables(true).into_iter().collect();
    let member = asked.iter().find(|variable| {
        variable.split_once('.').is_some_and(|(variable, _)| Variables::is_text(variable))
    });
    match member {
        None => Ok(()),
        Some(member) => Err(Error::configuration(format!(
            "the template {name} asks for {member}, which no text has"
        ))),
    }
}

/// The name of the file with the payload that a mail is tried with.
fn sample_name(language: &str, action: &str) -> String {
    format!("{language}/{action}{SAMPLE}")
}

/// The templates of a folder and of the folders in it, by their names. What is hidden, such as
/// `.git`, is of other programs.
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
        && !path.extension().is_some_and(|extension| {
            ["txt", "html", "mail"].iter().any(|known| extension == *known)
        })
    {
        return Ok(());
    }
    let size =
        fs::metadata(path).map_err(|error| failed(format!("cannot be read: {error}")))?.len();
    if size > MAX_BYTES {
        return Err(failed(format!("is larger than {MAX_BYTES} bytes")));
    }
    let text =
        fs::read_to_string(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
    // Some editors write a byte order mark, which would begin the subject.
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
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
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

fn file_name(path: &Path) -> Result<String, Error> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned)
        .ok_or_else(|| Error::configuration(format!("the name of {} is not UTF-8", path.display())))
}

#[cfg(test)]
mod tests;
