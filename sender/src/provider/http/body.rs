//! The body of a request: a template of JSON, in which every expression writes a whole JSON value.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, context};
use serde::de::IgnoredAny;

use crate::key::Key;
use crate::mail::{HeaderText, Mail, Recipient};

/// The largest template, in bytes.
const MAX_BYTES: u64 = 262_144;

const NAME: &str = "body";

/// A template that was tried.
#[derive(Debug)]
pub(super) struct Body(Environment<'static>);

impl Body {
    /// Reads a template.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, an unknown variable, a body that is no JSON.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        let shown = file.display();
        let unreadable = |error| format!("body_file: {shown} cannot be read: {error}");
        if fs::metadata(file).map_err(unreadable)?.len() > MAX_BYTES {
            return Err(format!("body_file: {shown} is larger than {MAX_BYTES} bytes"));
        }
        let text = fs::read_to_string(file).map_err(unreadable)?;
        Self::parse(text).map_err(|what| format!("body_file: {shown} {what}"))
    }

    fn parse(text: String) -> Result<Self, String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Whatever a template says of escaping, this writes its values.
        environment.set_formatter(write_json);
        environment
            .add_template_owned(NAME, text)
            .map_err(|error| format!("cannot be parsed: {}", one_line(&error)))?;
        let body = Self(environment);
        for reply_to in [None, Some("help@example.org")] {
            let rendered = body
                .try_render(&sample(reply_to))
                .map_err(|error| format!("cannot be filled in: {}", one_line(&error)))?;
            serde_json::from_str::<IgnoredAny>(&rendered).map_err(|error| {
                format!(
                    "makes no JSON, as line {} shows; \
                     an expression such as {{{{ to }}}} writes its own quotes",
                    error.line()
                )
            })?;
        }
        Ok(body)
    }

    /// The body of a mail.
    ///
    /// # Errors
    /// If there is none: a template with conditions can fail for a mail that is like no sample.
    pub(super) fn render(&self, mail: &Mail) -> Result<String, String> {
        let body =
            self.try_render(mail).map_err(|_| "the body of the request cannot be filled in")?;
        // The words of the parser would repeat the mail.
        serde_json::from_str::<IgnoredAny>(&body)
            .map_err(|_| "the body of the request is no JSON")?;
        Ok(body)
    }

    fn try_render(&self, mail: &Mail) -> Result<String, Error> {
        let reply_to = mail.reply_to.as_ref();
        self.0.get_template(NAME)?.render(context! {
            from => mail.from.to_string(),
            from_address => mail.from.email.to_string(),
            from_name => mail.from.name.clone().unwrap_or_default(),
            reply_to => reply_to.map(ToString::to_string).unwrap_or_default(),
            to => mail.to.address().to_string(),
            subject => mail.subject.as_str(),
            text => mail.text.as_str(),
            html => mail.html.as_str(),
            key => mail.key.to_string(),
        })
    }
}

fn write_json(output: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let text = match value.kind() {
        ValueKind::String => value.as_str().and_then(|text| serde_json::to_string(text).ok()),
        ValueKind::Number | ValueKind::Bool => Some(value.to_string()),
        _ => None,
    };
    let unfit = || Error::new(ErrorKind::BadSerialization, "only texts and numbers can be written");
    Ok(output.write_str(&text.ok_or_else(unfit)?)?)
}

/// A mail with what JSON has to escape in every text.
fn sample(reply_to: Option<&str>) -> Mail {
    const ODD: &str = "quotes \" and \\ and a line\nand \u{2028} and <b> & \u{1f600}";
    Mail {
        key: Key::default(),
        from: "\"Example, Inc\" <us@example.org>".parse().expect("it is an address"),
        reply_to: reply_to.map(|address| address.parse().expect("it is an address")),
        to: Recipient::parse("a..b@example.org").expect("it is an address"),
        subject: HeaderText::new("A \"subject\" \\").expect("it is a line"),
        text: ODD.to_owned(),
        html: ODD.to_owned(),
        date: UNIX_EPOCH,
    }
}

fn one_line(error: &Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const GOOD: &str = r#"{"from": {{ from }}, "to": [{{ to }}], "subject": {{ subject }},
        "text": {{ text }}, "html": {{ html }},
        {% if reply_to %}"reply_to": {{ reply_to }}, {% endif %}
        "key": {{ key }}, "size": {{ text|length }}}"#;

    fn body(text: &str) -> Result<Body, String> {
        Body::parse(text.to_owned())
    }

    #[test]
    fn every_value_arrives_as_it_was_whatever_is_in_it() {
        for text in [
            GOOD.to_owned(),
            GOOD.replace("{{ text }}", "{{ text|safe }}"),
            format!("{{% autoescape false %}}{GOOD}{{% endautoescape %}}"),
            format!("{{% autoescape 'html' %}}{GOOD}{{% endautoescape %}}"),
        ] {
            let mut mail = sample(Some("help@example.org"));
            mail.text =
                "\", \"bcc\": \"victim@x.test\u{0}\u{7f}\u{2028}</script>{{ key }}".to_owned();
            let found: serde_json::Value =
                serde_json::from_str(&body(&text).unwrap().render(&mail).unwrap()).unwrap();
            let expected = json!({
                "from": "\"Example, Inc\" <us@example.org>",
                "to": ["\"a..b\"@example.org"],
                "subject": "A \"subject\" \\",
                "text": mail.text,
                "html": mail.html,
                "reply_to": "help@example.org",
                "key": "0".repeat(32),
                "size": mail.text.chars().count(),
            });
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_mail_that_makes_no_json_gets_no_body() {
        let body =
            body(&format!("{{% if text|length > 100 %}}{{% else %}}{GOOD}{{% endif %}}")).unwrap();
        let mut mail = sample(None);
        mail.text = "x".repeat(101);
        assert!(body.render(&mail).unwrap_err().contains("no JSON"));
    }

    #[test]
    fn what_makes_no_json_is_refused_at_the_start_in_one_sentence() {
        for (text, expected) in [
            (GOOD.replace("{{ text }}", "\"{{ text }}\""), "writes its own quotes"),
            (GOOD.replace("{{ to }}", "\"Ada {{ to }}\""), "writes its own quotes"),
            (GOOD.replace("{{ to }}", "{{ too }}"), "cannot be filled in"),
            (GOOD.replace("{{ to }}", "{{ to"), "cannot be parsed"),
            (GOOD.replace("{{ to }}", "{{ [to] }}"), "only texts and numbers"),
            (GOOD.replace("{{ to }}", "{{ none }}"), "only texts and numbers"),
            (GOOD.replace("reply_to }}, ", "reply_to }} "), "writes its own quotes"),
            (GOOD.replace("{{ to }}", "{% include 'other' %}"), "cannot be filled in"),
            (String::new(), "makes no JSON"),
        ] {
            let error = body(&text).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
