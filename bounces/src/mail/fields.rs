//! Fields of a delivery status notification (RFC 3464),
//! read as leniently as mail servers write them.

/// The most groups that are looked at.
const MAX_GROUPS: usize = 64;

/// The longest value, in bytes; no field of use is longer.
const MAX_BYTES: usize = 8_192;

/// What a group of fields says once, or more than once.
#[derive(Default)]
enum Said {
    #[default]
    Nothing,
    Once(String),
    /// Twice, and not the same.
    Unclear,
}

impl Said {
    fn add(&mut self, value: String) {
        *self = match std::mem::take(self) {
            kept if value.is_empty() => kept,
            Self::Nothing => Self::Once(value),
            Self::Once(known) if known.eq_ignore_ascii_case(&value) => Self::Once(known),
            _ => Self::Unclear,
        };
    }

    fn text(&self) -> Option<&str> {
        if let Self::Once(text) = self { Some(text) } else { None }
    }
}

/// What a notification says of a recipient.
#[derive(Default)]
pub(super) struct Report {
    action: Said,
    status: Said,
    comment: String,
    answers: Vec<String>,
    last: Said,
    original: Said,
    actual: Said,
}

impl Report {
    /// Whom this is about.
    pub(super) fn final_recipient(&self) -> Option<&str> {
        self.last.text()
    }

    /// Whom the mail was for, where it was passed on: who may have other mailboxes.
    pub(super) fn original_recipient(&self) -> Option<&str> {
        self.original.text()
    }

    /// Where the server passed the mail on to, under the name of its recipient.
    pub(super) fn actual_recipient(&self) -> Option<&str> {
        self.actual.text()
    }

    /// Whether the mail was given up. Who contradicts himself says nothing.
    pub(super) fn has_failed(&self) -> bool {
        let is_clear =
            !matches!(self.status, Said::Unclear) && !matches!(self.actual, Said::Unclear);
        let action = self.action.text().and_then(|action| action.split_whitespace().next());
        let action = action.unwrap_or_default().trim_end_matches([';', ',', '.']);
        is_clear
            && ["failed", "failure", "fail"].iter().any(|word| action.eq_ignore_ascii_case(word))
    }

    pub(super) fn status(&self) -> &str {
        self.status.text().unwrap_or_default()
    }

    /// What the next server answered, as far as the report repeats it.
    pub(super) fn answer(&self) -> String {
        if self.answers.is_empty() { self.comment.clone() } else { self.answers.join(" ") }
    }

    fn set(&mut self, field: &str) {
        let Some((name, value)) = field.split_once(':') else { return };
        let value = value.trim();
        if value.len() > MAX_BYTES {
            return;
        }
        match name.trim_end().to_ascii_lowercase().as_str() {
            "action" => self.action.add(without_comments(value).0),
            "status" => {
                let (status, comment) = without_comments(value);
                self.status.add(status);
                self.comment.push_str(&comment);
            }
            "diagnostic-code" if !value.is_empty() => self.answers.push(value.to_owned()),
            "final-recipient" => self.last.add(value.to_owned()),
            "original-recipient" => self.original.add(value.to_owned()),
            "x-actual-recipient" => self.actual.add(value.to_owned()),
            _ => {}
        }
    }
}

/// The groups of fields that name a recipient, wherever they stand; nothing if there are too many
/// to be about one mail.
///
/// Groups end with empty lines; a field goes on in lines that begin with a blank.
pub(super) fn reports(text: &str) -> Option<Vec<Report>> {
    let mut groups: Vec<Vec<String>> = vec![Vec::new()];
    for line in text.lines() {
        let group = groups.last_mut()?;
        if line.trim().is_empty() {
            if !group.is_empty() {
                groups.push(Vec::new());
            }
        } else if line.starts_with([' ', '\t']) {
            match group.last_mut() {
                Some(field) if field.len() < MAX_BYTES => field.push_str(line),
                Some(_) => {}
                None => group.push(line.trim_start().to_owned()),
            }
        } else {
            group.push(line.to_owned());
        }
        if groups.len() > MAX_GROUPS {
            return None;
        }
    }
    let reports = groups.iter().map(|group| {
        let mut report = Report::default();
        for field in group {
            report.set(field);
        }
        report
    });
    Some(reports.filter(|report| !matches!(report.last, Said::Nothing)).collect())
}

/// Whether a text is a report, whatever its part says that it is: its first line is a field of one,
/// and it names a recipient.
pub(super) fn is_report(text: &str) -> bool {
    const FIRST: [&str; 8] = [
        "reporting-mta",
        "original-envelope-id",
        "dsn-gateway",
        "received-from-mta",
        "arrival-date",
        "final-recipient",
        "original-recipient",
        "action",
    ];
    let names = |line: &str, known: &[&str]| {
        let name = line.split_once(':').map_or("", |(name, _)| name.trim_end());
        known.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| names(line, &FIRST))
        && text.lines().any(|line| names(line, &["final-recipient"]))
        && text.lines().any(|line| names(line, &["action"]))
}

/// Takes comments in parentheses (RFC 822) out of a value, and returns them, too.
fn without_comments(value: &str) -> (String, String) {
    let mut depth = 0_u32;
    let mut rest = String::new();
    let mut comments = String::new();
    for character in value.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => rest.push(character),
            _ => comments.push(character),
        }
    }
    (rest.trim().to_owned(), comments)
}
