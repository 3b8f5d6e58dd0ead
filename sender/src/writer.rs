//! From a token to the mail that is sent for it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lettre::message::Mailbox;
use mailroom_mail::Error;
use serde_json::Value;

use crate::config::Config;
use crate::link::Links;
use crate::mail::{HeaderText, Mail, Recipient};
use crate::placeholders::{Bodies, Has, Shown};
use crate::protocol::Item;
use crate::templates::{Templates, Variables};

/// The longest part of an account's name that templates get, in characters.
const MAX_LOGIN: usize = 100;

/// Writes mails.
#[derive(Debug)]
pub(crate) struct Writer {
    from: Mailbox,
    reply_to: Option<Mailbox>,
    product: String,
    language: String,
    links: Links,
    templates: Templates,
}

impl Writer {
    /// Reads everything that a mail is made of, and writes one for each template, so that what is
    /// wrong shows before the first token.
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        Self::with_samples(config).map(|(writer, _)| writer)
    }

    /// The same, with the mails that it has written.
    pub(crate) fn with_samples(config: &Config) -> Result<(Self, Vec<Sample>), Error> {
        let writer = Self {
            from: config.from()?,
            reply_to: config.reply_to()?,
            product: config.product.clone(),
            language: config.language.clone(),
            links: config.links()?,
            templates: Templates::read(config.templates.as_deref())?,
        };
        if !writer.templates.has_language(&writer.language) {
            return Err(Error::configuration(format!(
                "there are no templates in the language {}",
                writer.language
            )));
        }
        let mails = writer.templates.mails();
        let samples: Result<Vec<_>, _> = mails
            .map(|(language, action)| writer.sample(language, &Shown::as_shipped(action)))
            .collect();
        let samples = samples?;
        Ok((writer, samples))
    }

    /// The mail of a token, in its language (`pt-BR` or `pt_br`, then `pt`) if there is a template,
    /// and otherwise in the configured one.
    ///
    /// # Errors
    /// Why there can be no mail, without an address, a token or a name.
    pub(crate) fn write(&self, item: &Item, now: SystemTime) -> Result<Mail, String> {
        let wanted = item.language.as_deref().unwrap_or(&self.language).replace('_', "-");
        let mut tags =
            std::iter::successors(Some(wanted.as_str()), |tag| Some(tag.rsplit_once('-')?.0));
        let language = tags.find_map(|tag| self.templates.language_of(tag, &item.action));
        self.write_in(language.unwrap_or(&self.language), item, now)
    }

    /// Whether an action has a mail in the configured language, which all others fall back to.
    pub(crate) fn has_mail(&self, action: &str) -> bool {
        self.templates.language_of(&self.language, action).is_some()
    }

    /// A mail of a template, for a token that nobody made. It has all that the action may have.
    fn sample(&self, language: &str, shown: &Shown) -> Result<Sample, Error> {
        let item = sample(shown, self.templates.sample(language, &shown.action));
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let mail = self.write_in(language, &item, now).map_err(|reason| {
            let about = self.templates.about_sample(language, &shown.action);
            Error::Configuration(format!("{reason}; {about}"))
        })?;
        Ok(Sample { language: language.to_owned(), item, mail })
    }

    /// What mails lack, of those of which it is known what they have. A mail is written again only
    /// if its action has something else than the sample.
    pub(crate) fn lacking(
        &self,
        samples: &[Sample],
        known: impl Fn(&str) -> Option<Shown>,
    ) -> Result<Lacking, Error> {
        let mut lacking = Lacking::default();
        for written in samples {
            let Some(shown) = known(&written.item.action) else { continue };
            let again;
            let sample = if written.is_of(&shown) {
                written
            } else {
                again = self.sample(&written.language, &shown)?;
                &again
            };
            let Sample { language, item, mail } = sample;
            let link = self.link(item).map_err(Error::Configuration)?;
            let bodies = Bodies { text: &mail.text, html: &mail.html };
            let lost = bodies.lost(&shown, &link, &item.code);
            let action = &item.action;
            if !lost.is_empty() {
                let lost = lost.join(" and ");
                let said = format!("the mail {language}/{action} does not show {lost}");
                lacking.placeholders.push(said);
            }
            if shown.link == Has::Unknown && !bodies.show(&link) {
                lacking.links.push(format!("{language}/{action}"));
            }
        }
        Ok(lacking)
    }

    /// The link of a token; empty for a mail without one.
    ///
    /// # Errors
    /// A path or a token that no link can carry.
    pub(crate) fn link(&self, item: &Item) -> Result<String, String> {
        if item.path.is_empty() && item.token.is_empty() {
            return Ok(String::new());
        }
        let link = self.links.link(&item.action, &item.path, &item.token);
        link.ok_or_else(|| "its path or token has characters that no link can carry".to_owned())
    }

    fn write_in(&self, language: &str, item: &Item, now: SystemTime) -> Result<Mail, String> {
        let to = Recipient::parse(&item.email)?;
        let link = self.link(item)?;
        let rendered = self.templates.render(&Variables {
            product: &self.product,
            language,
            action: &item.action,
            link: &link,
            code: &item.code,
            email: &item.email,
            login: &one_line(&item.login),
            expires: &minute(item.expires_at).unwrap_or_default(),
            payload: &item.payload,
        })?;
        let subject = HeaderText::new(&rendered.subject)
            .map_err(|reason| format!("the mail {language}/{}: {reason}", item.action))?;
        let from = self.from.clone();
        let reply_to = self.reply_to.clone();
        Ok(Mail {
            key: item.key,
            from,
            reply_to,
            to,
            subject,
            text: rendered.text,
            html: rendered.html,
            date: now,
        })
    }
}

/// A mail that shows what a template makes.
#[derive(Debug)]
pub(crate) struct Sample {
    language: String,
    item: Item,
    pub(crate) mail: Mail,
}

impl Sample {
    /// Its language and action, as in the name of a file.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.language, self.item.action)
    }

    /// Whether it has a link, and a code, where mails of this action may have them.
    fn is_of(&self, shown: &Shown) -> bool {
        let [has_link, has_code] = [&self.item.path, &self.item.code].map(|text| !text.is_empty());
        (has_link, has_code) == (shown.link != Has::Never, shown.code != Has::Never)
    }
}

/// What the mails of templates lack.
#[derive(Debug, Default)]
pub(crate) struct Lacking {
    /// Which mails do not show a placeholder that they need, a sentence a mail.
    pub(crate) placeholders: Vec<String>,
    /// The mails of which nobody can say here whether they need a link, and that have none.
    pub(crate) links: Vec<String>,
}

/// A part of a token and a code that nobody made.
const SAMPLE_TOKEN: &str = "sample-";
const SAMPLE_CODE: &str = "01234";

/// A token that nobody made. It has a link and a code unless its action never has them.
fn sample(shown: &Shown, payload: Value) -> Item {
    let (path, token) = match shown.link {
        Has::Never => (String::new(), String::new()),
        _ => (format!("/{}", shown.action), SAMPLE_TOKEN.repeat(12)),
    };
    Item {
        id: 4711,
        key: crate::key::Key::parse("b9a16650bbdcba5dd0298fef5dd25661")
            .expect("32 digits are a key"),
        action: shown.action.clone(),
        path,
        email: "ada.lovelace@example.org".to_owned(),
        login: "ada".to_owned(),
        token,
        code: if shown.code == Has::Never { String::new() } else { SAMPLE_CODE.to_owned() },
        expires_at: 1_800_000_900,
        language: None,
        payload,
        doubts: 0,
        traceparent: None,
    }
}

/// A name on one line, in which nothing hides or turns the text around it.
fn one_line(login: &str) -> String {
    let is_plain = |character: char| {
        !character.is_control()
            && !matches!(
                character,
                '\u{61c}'
                    | '\u{200b}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}'
                    | '\u{feff}'
            )
    };
    login
        .chars()
        .take(MAX_LOGIN)
        .map(|character| if is_plain(character) { character } else { ' ' })
        .collect()
}

/// `2026-11-22 14:35 UTC`, the minute that has begun; `None` before 1970 and after the year 9999.
fn minute(seconds: i64) -> Option<String> {
    const LAST: u64 = 253_402_300_799;
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds <= LAST)?;
    let mut days = seconds / 86_400;
    let minutes = seconds / 60 % 1_440;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    Some(format!(
        "{year}-{:02}-{:02} {:02}:{:02} UTC",
        month + 1,
        days + 1,
        minutes / 60,
        minutes % 60
    ))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn times_are_dates_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_868_799, "2000-02-29 23:59 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_800_000_900, "2027-01-15 08:15 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
            (253_402_300_799, "9999-12-31 23:59 UTC"),
        ] {
            assert_eq!(minute(seconds).as_deref(), Some(expected));
        }
        for seconds in [-1, i64::MIN, 253_402_300_800, i64::MAX] {
            assert_eq!(minute(seconds), None);
        }
    }

    /// A folder of the shipped templates, and a configuration that names it.
    fn shipped_in(folder: &Path) -> (PathBuf, Config) {
        let templates = folder.join("templates");
        crate::templates::write_shipped(&templates).unwrap();
        let text = format!(
            "from = 'a@x.test'\nproduct = 'X'\njournal = 'journal'\ntemplates = '{}'\n[links]\n\
             base = 'https://x.test'\n\
             [smtp]\nserver = 'localhost'\nport = 25\ntls = 'none'\n",
            templates.display()
        );
        let path = folder.join("send.toml");
        std::fs::write(&path, text).unwrap();
        (templates, Config::read(&path).unwrap())
    }

    #[test]
    fn a_mail_is_in_its_own_language_if_there_is_a_template_and_shows_its_payload() {
        let folder = tempfile::tempdir().unwrap();
        let (templates, config) = shipped_in(folder.path());
        for (name, text) in [
            ("en/news.subject.txt", "News for {{ payload.team }}"),
            ("en/news.txt", "[{{ link }}]"),
            ("en/news.html", "-"),
            ("en/news.sample.json", r#"{"team": "sample"}"#),
        ] {
            std::fs::write(templates.join(name), text).unwrap();
            std::fs::write(
                templates.join(name.replace("en/", "pt/")),
                text.replace("News for", "Novas de"),
            )
            .unwrap();
        }
        let writer = Writer::new(&config).unwrap();
        for (language, subject) in [
            (Some("pt-BR"), "Novas de A"),
            (Some("PT_br"), "Novas de A"),
            (Some("pt-Latn-BR-u-nu-latn"), "Novas de A"),
            (Some("pt"), "Novas de A"),
            (Some("de"), "News for A"),
            (Some("../pt"), "News for A"),
            (None, "News for A"),
        ] {
            let payload = serde_json::json!({"team": "A"});
            let mut item = super::sample(&Shown::as_shipped("news"), payload);
            (item.language, item.path, item.token) =
                (language.map(str::to_owned), String::new(), String::new());
            let mail = writer.write(&item, UNIX_EPOCH).unwrap();
            assert_eq!((mail.subject.as_str(), mail.text.as_str()), (subject, "[]"));
        }
    }

    #[test]
    fn a_mail_without_a_subject_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (templates, config) = shipped_in(folder.path());
        std::fs::write(templates.join("pt/invite.mail"), "").unwrap();
        let error = Writer::new(&config).unwrap_err().to_string();
        assert!(error.starts_with("the mail pt/invite: the subject is empty; "), "{error}");
    }

    #[test]
    fn a_name_is_one_short_line() {
        assert_eq!(one_line("ada\r\nInbox: \u{202e}x\u{2028}\u{fc}"), "ada  Inbox:  x \u{fc}");
        assert_eq!(one_line(&"\u{fc}".repeat(5_000)).chars().count(), MAX_LOGIN);
    }
}
