//! What refusals mean. The first row that fits decides; docs/reference/refusals.md shows the same
//! rows.

use super::Meaning::{self, Later, Mail, Ours, Recipient, Unknown, Unplaced};
use super::known::{self, Words};
use super::{Api, OfOne, Step};

/// A row: all that it says must fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(super) steps: &'static [Step],
    pub(super) codes: &'static [Codes],
    /// What an HTTP API calls it; any name if there is none.
    pub(super) names: &'static [&'static str],
    /// Enhanced codes; any, or none at all, if there is none here.
    pub(super) enhanced: &'static [&'static str],
    /// Kinds of words, of each of which the text has some; any text if there are none.
    pub(super) words: &'static [&'static Words],
    /// Whether a request to any HTTP API that has rows of its own fits, too.
    pub(super) apis: bool,
    /// Whether only a text fits that names our address or its domain, and not the recipient's.
    pub(super) names_us: bool,
    pub(super) meaning: Meaning,
}

/// Codes from the first to the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codes(pub(super) u16, pub(super) u16);

impl Codes {
    pub(super) const fn contains(self, code: u16) -> bool {
        self.0 <= code && code <= self.1
    }
}

const fn one(code: u16) -> Codes {
    Codes(code, code)
}

const ANY: &[Codes] = &[Codes(400, 599)];
const FOR_NOW: &[Codes] = &[Codes(400, 499)];
const FOR_EVER: &[Codes] = &[Codes(500, 599)];

const SESSION: &[Step] = &[Step::Hello, Step::Login];
const MAIL: &[Step] = &[Step::Sender, Step::SenderUtf8];
const RCPT: &[Step] = &[Step::Recipient];
const CONTENT: &[Step] = &[Step::Data, Step::Content];
const AFTER_MAIL: &[Step] = &[Step::Recipient, Step::Data, Step::Content];
const DIALOGUE: &[Step] =
    &[Step::Sender, Step::SenderUtf8, Step::Recipient, Step::Data, Step::Content];

/// A request to an API whose refusals may be of one recipient, but for those of the key and of
/// the rate.
const fn api(name: &'static str) -> Step {
    Step::Api(Api { name, of_one: OfOne::OtherThan(&[401, 429]) })
}

/// Requests to the HTTP APIs that have names for their refusals.
pub(crate) const POSTMARK: Step = api("Postmark");
pub(crate) const RESEND: Step = api("Resend");
/// It has one status for almost all refusals.
pub(crate) const SES: Step =
    Step::Api(Api { name: "SES", of_one: OfOne::Named(&["MessageRejected"]) });

const fn row(steps: &'static [Step], codes: &'static [Codes], meaning: Meaning) -> Row {
    Row {
        steps,
        codes,
        names: &[],
        enhanced: &[],
        words: &[],
        apis: false,
        names_us: false,
        meaning,
    }
}

impl Row {
    const fn names(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    const fn enhanced(self, enhanced: &'static [&'static str]) -> Self {
        Self { enhanced, ..self }
    }

    const fn words(self, words: &'static [&'static Words]) -> Self {
        Self { words, ..self }
    }

    /// The words count also where an HTTP API passes them on.
    const fn and_apis(self) -> Self {
        Self { apis: true, ..self }
    }

    const fn naming_us(self) -> Self {
        Self { names_us: true, ..self }
    }
}

const OURS_BY_CODE: &[&str] = &[
    "x.1.7",
    "x.1.8",
    "x.1.90",
    "x.2.252",
    "x.4.5",
    "x.5.1–x.5.3",
    "x.7.2–x.7.6",
    "x.7.8–x.7.30",
    "x.7.57",
    "x.7.60",
    "x.7.64",
    "x.7.100–x.7.132",
    "x.7.137–x.7.999",
];

/// The codes of addresses that do not exist.
const BAD_ADDRESS: &[&str] = &["x.1.1–x.1.3", "x.1.6", "x.1.10"];

/// The codes of addresses, mailboxes and routes to them; 5.5.0 is Microsoft's for a mailbox that is
/// not there.
const OF_MAILBOX: &[&str] = &["x.1.*", "x.2.*", "x.4.*", "x.5.0"];

pub(crate) const ROWS: &[Row] = &[
    // The session: nothing was said of a mail yet.
    row(SESSION, ANY, Ours),
    row(DIALOGUE, &[one(421)], Ours),
    // MAIL: of us, but for what few mails have. No size is given there, so none is refused.
    row(&[Step::SenderUtf8], FOR_EVER, Unplaced),
    row(MAIL, &[one(555)], Unplaced),
    row(MAIL, ANY, Ours),
    // Who refuses for now is asked again, whatever it says of us.
    row(AFTER_MAIL, ANY, Later).words(&[known::GREYLISTED]),
    row(AFTER_MAIL, ANY, Later).words(&[known::FULL]),
    row(AFTER_MAIL, ANY, Later).enhanced(&["x.2.2"]),
    // Of another server's words none counts but that there is no such address: what it refuses may
    // be the server that asked it.
    row(RCPT, FOR_NOW, Later).words(&[known::SECOND_HAND]),
    row(RCPT, FOR_EVER, Recipient).words(&[known::SECOND_HAND, known::NO_SUCH_ADDRESS]),
    row(RCPT, FOR_EVER, Unplaced).words(&[known::SECOND_HAND]),
    // Our own address may be unknown, too, and the server may be unable to say.
    row(AFTER_MAIL, FOR_EVER, Ours).naming_us(),
    row(AFTER_MAIL, FOR_EVER, Ours).words(&[known::OF_US]),
    row(RCPT, FOR_EVER, Unplaced).enhanced(BAD_ADDRESS).words(&[known::FAULT]),
    // That an address does not exist is said of nobody else.
    row(RCPT, FOR_EVER, Unknown).enhanced(BAD_ADDRESS).words(&[known::NO_SUCH_ADDRESS]),
    row(AFTER_MAIL, FOR_EVER, Recipient).words(&[known::PERSONAL]),
    // About us, by words.
    row(DIALOGUE, ANY, Ours).and_apis().words(&[known::RELAYING]),
    row(DIALOGUE, ANY, Ours).and_apis().words(&[known::LOGIN]),
    row(DIALOGUE, ANY, Ours).and_apis().words(&[known::SENDER]),
    row(DIALOGUE, ANY, Ours).and_apis().words(&[known::HELO]),
    row(DIALOGUE, ANY, Ours).and_apis().words(&[known::LIMITS]),
    row(DIALOGUE, ANY, Ours).and_apis().words(&[known::BLOCKED]),
    // About us, by codes.
    row(AFTER_MAIL, ANY, Ours).enhanced(OURS_BY_CODE),
    row(AFTER_MAIL, &[one(432), one(454), Codes(502, 503), Codes(530, 539)], Ours),
    row(AFTER_MAIL, ANY, Ours).enhanced(&["x.3.1–x.3.2"]),
    // Of the recipient, where code or words speak of the address or the mailbox. Whatever else is
    // refused for ever, with a code of policy or with none, may be everybody's.
    row(AFTER_MAIL, FOR_NOW, Later),
    row(AFTER_MAIL, FOR_EVER, Unplaced).words(&[known::FAULT]),
    row(RCPT, FOR_EVER, Recipient).words(&[known::NO_SUCH_ADDRESS]),
    row(RCPT, &[one(552)], Later).enhanced(&["none"]),
    row(RCPT, FOR_EVER, Recipient).enhanced(&["x.4.1"]).words(&[known::NOT_IN_DIRECTORY]),
    row(AFTER_MAIL, FOR_EVER, Unplaced).words(&[known::POLICY]),
    row(RCPT, FOR_EVER, Unknown).enhanced(BAD_ADDRESS),
    row(CONTENT, FOR_EVER, Recipient).enhanced(BAD_ADDRESS),
    row(AFTER_MAIL, FOR_EVER, Recipient).enhanced(OF_MAILBOX).words(&[known::NO_DELIVERY]),
    row(AFTER_MAIL, FOR_EVER, Unplaced),
    // HTTP APIs, by the names that they have.
    row(&[POSTMARK], &[one(422)], Ours).names(&["400", "401", "405", "412", "413"]),
    row(&[POSTMARK], &[one(422)], Recipient).names(&["406"]),
    row(&[POSTMARK], &[one(422)], Recipient).names(&["300"]).words(&[known::FIELD_OF_RECIPIENT]),
    row(&[POSTMARK], &[one(422)], Unplaced).names(&["300"]),
    row(&[POSTMARK], &[one(422)], Later),
    row(&[RESEND], ANY, Ours).names(&["invalid_from_address", "invalid_access", "invalid_region"]),
    row(&[RESEND], &[one(401), one(403), one(429)], Ours),
    row(&[RESEND], &[one(409)], Mail).names(&["invalid_idempotent_request"]),
    row(&[RESEND], &[one(400), one(422), one(451)], Unplaced),
    row(&[SES], &[one(400)], Unplaced).names(&[
        "BadRequestException",
        "MessageRejected",
        "ValidationException",
    ]),
    row(&[SES], &[one(400)], Ours).names(&[
        "AccountSuspendedException",
        "LimitExceededException",
        "MailFromDomainNotVerifiedException",
        "NotAuthorized",
        "OptInRequired",
        "RequestExpired",
        "SendingPausedException",
        "ThrottlingException",
        "TooManyRequestsException",
    ]),
    row(&[SES], &[one(400)], Later),
    row(&[Step::Http], &[one(400), one(413), one(422)], Unplaced),
];
