//! The pages: which there are, and what each shows.

use mailroom_http::Answer;
use mailroom_http::hyper::StatusCode;
use minijinja::Environment;
use minijinja::value::Serde;
use serde_json::{Value, json};

use super::answer::html;
use super::database::Database;
use crate::commands::status::alarms::{Bounds, alarms, at};
use crate::commands::status::text;
use crate::config::{TimeoutSettings, digits};

/// How many rows a list shows, the newest.
pub(super) const MAX_ROWS: i64 = 200;

/// A page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Page {
    Queue,
    Story(About),
    Dead,
    Suppressed,
    Runs,
}

/// Whose story is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum About {
    Token(i64),
    Address(String),
}

impl Page {
    pub(super) fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/" => Self::Queue,
            "/dead" => Self::Dead,
            "/suppressed" => Self::Suppressed,
            "/runs" => Self::Runs,
            _ => Self::Story(About::Token(id(path.strip_prefix("/tokens/")?)?)),
        })
    }

    fn template(&self) -> &'static str {
        match self {
            Self::Queue => "queue.html",
            Self::Story(_) => "story.html",
            Self::Dead => "dead.html",
            Self::Suppressed => "suppressed.html",
            Self::Runs => "runs.html",
        }
    }
}

impl About {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let address = || text.contains('@').then(|| Self::Address(text.to_owned()));
        id(text).map(Self::Token).or_else(address)
    }

    fn shown(&self) -> String {
        match self {
            Self::Token(id) => format!("token {id}"),
            Self::Address(address) => address.clone(),
        }
    }
}

fn id(text: &str) -> Option<i64> {
    digits(text).filter(|id| *id > 0)
}

/// The pages and what they are made of.
pub(super) struct Pages {
    database: Database,
    bounds: Bounds,
    installation: Option<String>,
    templates: Environment<'static>,
}

impl Pages {
    pub(super) fn new(
        database: Database,
        timeouts: TimeoutSettings,
        installation: Option<String>,
    ) -> Self {
        let mut templates = Environment::new();
        for (name, text) in [
            ("layout.html", include_str!("page/layout.html")),
            ("queue.html", include_str!("page/queue.html")),
            ("story.html", include_str!("page/story.html")),
            ("dead.html", include_str!("page/dead.html")),
            ("suppressed.html", include_str!("page/suppressed.html")),
            ("runs.html", include_str!("page/runs.html")),
            ("door.html", include_str!("page/door.html")),
            ("fault.html", include_str!("page/fault.html")),
        ] {
            templates.add_template(name, text).expect("a test renders every page");
        }
        let bounds = Bounds { timeouts, max_dead: None };
        Self { database, bounds, installation, templates }
    }

    /// A page as the database is now.
    pub(super) async fn show(&self, page: Page) -> Answer {
        let seen = match self.database.look(&page, self.installation.as_deref()).await {
            Ok(seen) => seen,
            Err(error) => {
                let sentence = format!("The database cannot be read: {error}.");
                return self.fault(StatusCode::SERVICE_UNAVAILABLE, &sentence);
            }
        };
        let shown = match &page {
            Page::Queue => self.queue(&seen),
            Page::Story(about) => json!({ "about": about.shown(), "events": seen }),
            Page::Dead | Page::Suppressed | Page::Runs => list(seen),
        };
        self.render(StatusCode::OK, page.template(), &shown)
    }

    /// The page that asks for the word of the terminal, and why it does again.
    pub(super) fn door(&self, status: StatusCode, complaint: &str) -> Answer {
        self.render(status, "door.html", &json!({ "complaint": complaint }))
    }

    /// A page that says why there is none.
    pub(super) fn fault(&self, status: StatusCode, sentence: &str) -> Answer {
        self.render(status, "fault.html", &json!({ "sentence": sentence }))
    }

    fn render(&self, status: StatusCode, template: &str, shown: &Value) -> Answer {
        let page = self.templates.get_template(template).expect("it was added");
        let shown = json!({ "shown": shown, "template": template, "most": MAX_ROWS });
        let page = page.render(Serde(shown));
        html(status, page.expect("a test renders every page"))
    }

    /// The figures, and the sentences of `mailroom status` about them.
    fn queue(&self, status: &Value) -> Value {
        let alarms: Vec<_> = alarms(status, &self.bounds)
            .iter()
            .map(|alarm| json!({ "place": alarm.place, "level": alarm.level.name() }))
            .collect();
        let listed = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let collectors: Vec<_> =
            listed(&status["collectors"]["list"]).iter().map(text::described).collect();
        let unsigned: Vec<_> = listed(&status["unsigned"]).iter().map(text::unsignable).collect();
        let ages = |place| at(status, place).map(|age| text::age(age).to_string());
        json!({
            "status": status,
            "alarms": alarms,
            "collectors": collectors,
            "unsigned": unsigned,
            "budget": text::budget(status),
            "format": text::formats(status),
            "name": text::named(status),
            "oldest_due": ages("queue.oldest_due_ms"),
            "oldest_lease": ages("leases.oldest_ms"),
            "oldest_doubt": ages("in_doubt.oldest_ms"),
        })
    }
}

/// Rows, and whether there are more than are shown.
fn list(mut rows: Value) -> Value {
    let most = usize::try_from(MAX_ROWS).unwrap_or(usize::MAX);
    let all = rows.as_array_mut().map(|rows| {
        let all = rows.len() <= most;
        rows.truncate(most);
        all
    });
    json!({ "rows": rows, "has_more": all == Some(false) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_pages_are_few_and_ids_have_one_spelling() {
        assert_eq!(Page::at("/"), Some(Page::Queue));
        assert_eq!(Page::at("/tokens/7"), Some(Page::Story(About::Token(7))));
        for none in
            ["", "//", "/tokens", "/tokens/", "/tokens/0", "/tokens/-1", "/tokens/7/", "/Dead"]
        {
            assert_eq!(Page::at(none), None, "{none}");
        }
        for none in ["", "ada", "0", "1e3", "-7", "99999999999999999999"] {
            assert_eq!(About::parse(none), None, "{none}");
        }
        assert_eq!(About::parse(" 7 "), Some(About::Token(7)));
        let address = About::Address("ada@example.test".to_owned());
        assert_eq!(About::parse("ada@example.test\n"), Some(address));
    }
}
