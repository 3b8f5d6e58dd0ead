//! What each page shows.

use std::sync::Arc;

use mailroom_http::hyper::StatusCode;
use mailroom_http::hyper::header::{CONTENT_TYPE, HeaderValue};
use mailroom_http::{Answer, plain};
use minijinja::Environment;
use minijinja::value::Serde;
use serde_json::{Value, json};

use super::address::{About, Page};
use super::database::{Database, Seen};
use crate::commands::status::alarms::{Bounds, alarms, at};
use crate::commands::status::sentences::{
    DEFERRED, age, budget, described, formats, named, unsignable,
};
use crate::config::TimeoutSettings;

/// How many rows a list shows, the newest.
pub(super) const MAX_ROWS: usize = 200;

const HTML: &str = "text/html; charset=utf-8";

fn template(page: &Page) -> &'static str {
    match page {
        Page::Queue => "queue.html",
        Page::Story(_) => "story.html",
        Page::Dead => "dead.html",
        Page::Suppressed => "suppressed.html",
        Page::Runs => "runs.html",
    }
}

/// The pages and what they are made of.
pub(super) struct Pages {
    database: Arc<Database>,
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
            ("parts.html", include_str!("page/parts.html")),
            ("queue.html", include_str!("page/queue.html")),
            ("story.html", include_str!("page/story.html")),
            ("dead.html", include_str!("page/dead.html")),
            ("suppressed.html", include_str!("page/suppressed.html")),
            ("runs.html", include_str!("page/runs.html")),
            ("sign_in.html", include_str!("page/sign_in.html")),
            ("fault.html", include_str!("page/fault.html")),
        ] {
            templates.add_template(name, text).expect("a test shows every page");
        }
        let bounds = Bounds { timeouts, max_dead: None };
        let database = Arc::new(database);
        Self { database, bounds, installation, templates }
    }

    /// A page as the database is now.
    pub(super) async fn show(&self, page: Page) -> Answer {
        let seen = match self.database.look(page.clone(), self.installation.clone()).await {
            Ok(seen) => seen,
            Err(error) => {
                let sentence = format!("The database cannot be read: {error}.");
                return self.fault(StatusCode::SERVICE_UNAVAILABLE, &sentence);
            }
        };
        let shown = match (&page, seen) {
            (_, Seen::Figures(status)) => self.queue(&status),
            (Page::Story(About::Token(id)), Seen::Rows(events)) => {
                json!({ "about": format!("token {id}"), "token": id, "events": list(events) })
            }
            (Page::Story(About::Address(address)), Seen::Rows(events)) => {
                json!({ "about": address, "events": list(events) })
            }
            (_, Seen::Rows(rows)) => list(rows),
        };
        self.render(StatusCode::OK, template(&page), &shown)
    }

    /// The page that asks for the one-time password, and why it does again.
    pub(super) fn sign_in(&self, status: StatusCode, complaint: &str) -> Answer {
        self.render(status, "sign_in.html", &json!({ "complaint": complaint }))
    }

    /// The page of an error.
    pub(super) fn fault(&self, status: StatusCode, sentence: &str) -> Answer {
        self.render(status, "fault.html", &json!({ "sentence": sentence }))
    }

    fn render(&self, status: StatusCode, template: &str, shown: &Value) -> Answer {
        let page = self.templates.get_template(template).expect("it was added");
        let shown = json!({ "shown": shown, "template": template, "most": MAX_ROWS });
        // What is in the database has perhaps another form than its functions give it.
        let Ok(text) = page.render(Serde(shown)) else {
            let sentence = "this page cannot show what the database has\n";
            return plain(StatusCode::INTERNAL_SERVER_ERROR, sentence);
        };
        let mut answer = plain(status, text);
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(HTML));
        answer
    }

    /// The figures, and the sentences of `mailroom status` about them.
    fn queue(&self, status: &Value) -> Value {
        let alarms: Vec<_> = alarms(status, &self.bounds)
            .iter()
            .map(|alarm| json!({ "place": alarm.place, "level": alarm.level.name() }))
            .collect();
        let listed = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let collectors: Vec<_> =
            listed(&status["collectors"]["list"]).iter().map(described).collect();
        let unsigned: Vec<_> = listed(&status["unsigned"]).iter().map(unsignable).collect();
        let ages = |place| at(status, place).map(|lasted| age(lasted).to_string());
        json!({
            "status": status,
            "alarms": alarms,
            "collectors": collectors,
            "unsigned": unsigned,
            "deferred": DEFERRED,
            "budget": budget(status),
            "format": formats(status),
            "name": named(status),
            "oldest_due": ages("queue.oldest_due_ms"),
            "oldest_lease": ages("leases.oldest_ms"),
            "oldest_doubt": ages("in_doubt.oldest_ms"),
        })
    }
}

/// The newest rows, and whether there are more.
fn list(mut rows: Vec<Value>) -> Value {
    let has_more = rows.len() > MAX_ROWS;
    rows.truncate(MAX_ROWS);
    json!({ "rows": rows, "has_more": has_more })
}
