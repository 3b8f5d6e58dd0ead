//! Whether templates show what their mails are for: the link, and the code of an action that has
//! one. A template that another program has made may have lost either.

/// Whether the mails of an action have a link, or a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Has {
    Always,
    Never,
    /// Only the database knows. Where one body shows it the other one does.
    Unknown,
}

/// The actions of a new installation; whether their mails have a link there, and a code.
const SHIPPED: [(&str, bool, bool); 6] = [
    ("activate", true, false),
    ("recover", true, true),
    ("change_email", true, false),
    ("invite", true, false),
    ("sign_in", true, true),
    ("notice", false, false),
];

/// Those of them that have the same in every database.
const FIXED: [&str; 3] = ["activate", "recover", "notice"];

/// What the mails of an action have.
#[derive(Clone, Debug)]
pub struct Shown {
    pub(crate) action: String,
    pub(crate) link: Has,
    pub(crate) code: Has,
}

impl Shown {
    /// What an action of a database has.
    pub fn new(action: &str, has_link: bool, has_code: bool) -> Self {
        let has = |known| if known { Has::Always } else { Has::Never };
        Self { action: action.to_owned(), link: has(has_link), code: has(has_code) }
    }

    /// What an action has in a new installation.
    pub(crate) fn as_shipped(action: &str) -> Self {
        let shipped = SHIPPED.iter().find(|(name, ..)| *name == action);
        shipped.map_or_else(
            || Self { action: action.to_owned(), link: Has::Unknown, code: Has::Unknown },
            |(name, has_link, has_code)| Self::new(name, *has_link, *has_code),
        )
    }

    /// What is known of an action without its database, which may have given it a code.
    pub(crate) fn without_database(action: &str) -> Self {
        let shipped = Self::as_shipped(action);
        if FIXED.contains(&action) { shipped } else { Self { code: Has::Unknown, ..shipped } }
    }
}

/// The two bodies of a mail.
#[derive(Clone, Copy)]
pub(crate) struct Bodies<'a> {
    pub(crate) text: &'a str,
    pub(crate) html: &'a str,
}

impl Bodies<'_> {
    /// Whether a body shows this.
    pub(crate) fn show(self, value: &str) -> bool {
        self.text.contains(value) || self.html.contains(value)
    }

    /// The placeholders that the mail lacks, and where.
    pub(crate) fn lost(self, shown: &Shown, link: &str, code: &str) -> Vec<String> {
        let mut lost = Vec::new();
        for (name, value, has) in [("link", link, shown.link), ("code", code, shown.code)] {
            let is_needed = match has {
                Has::Always => true,
                Has::Never => false,
                Has::Unknown => self.show(value),
            };
            // A mail without an HTML body is a text.
            let has_html = !self.html.trim().is_empty();
            for (kind, body, is_there) in [("text", self.text, true), ("HTML", self.html, has_html)]
            {
                if is_needed && is_there && !body.contains(value) {
                    lost.push(format!("{{{{ {name} }}}} in its {kind}"));
                }
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "https://x.test/vote?token=t";

    fn lost(shown: &Shown, text: &str, html: &str) -> Vec<String> {
        Bodies { text, html }.lost(shown, LINK, "01234")
    }

    #[test]
    fn a_mail_shows_its_link_and_its_code_in_both_bodies() {
        let shown = Shown::new("vote", true, true);
        let whole = format!("{LINK} 01234");
        assert!(lost(&shown, &whole, &whole).is_empty());
        assert!(lost(&shown, &whole, " \n").is_empty(), "a mail can be a text alone");
        assert_eq!(lost(&shown, &whole, LINK), ["{{ code }} in its HTML"]);
        assert_eq!(lost(&shown, "01234", &whole), ["{{ link }} in its text"]);
        assert_eq!(lost(&shown, "", "-").len(), 4);
    }

    #[test]
    fn a_database_may_change_the_codes_of_actions_that_are_not_fixed() {
        let codes = |action| [Shown::as_shipped(action), Shown::without_database(action)];
        for (action, _, has_code) in SHIPPED {
            let [shipped, known] = codes(action).map(|shown| shown.code);
            assert_eq!(shipped == Has::Always, has_code, "{action}");
            let is_fixed = FIXED.contains(&action);
            assert_eq!(known, if is_fixed { shipped } else { Has::Unknown }, "{action}");
        }
        assert_eq!(codes("vote").map(|shown| shown.code), [Has::Unknown; 2]);
    }

    #[test]
    fn what_one_body_shows_is_missed_in_the_other() {
        let shown = Shown::without_database("vote");
        assert!(lost(&shown, LINK, LINK).is_empty());
        assert_eq!(lost(&shown, &format!("{LINK} 01234"), LINK), ["{{ code }} in its HTML"]);
        assert!(lost(&shown, "News", "News").is_empty());
        let notice = Shown::without_database("notice");
        assert!(lost(&notice, "Hello", "Hello").is_empty());
        let recovery = Shown::without_database("recover");
        assert_eq!(lost(&recovery, LINK, LINK).len(), 2);
    }
}
