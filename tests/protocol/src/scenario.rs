//! What goes wrong, and how often. All of it in any order: more of everything at once is more
//! states than a machine visits in minutes.

/// How often each thing can happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Limits {
    /// Claims of all collectors.
    pub claims: u8,
    /// Connections to the database that end during a statement, which may be executed all the same,
    /// before or after the next one.
    pub breaks: u8,
    /// Collectors that are killed with their senders, and start again.
    pub kills: u8,
    /// Senders that end.
    pub crashes: u8,
    /// Collectors that are suspended for longer than a lease, or clocks that are set ahead.
    pub suspensions: u8,
    /// Connections that end before the provider's answer.
    pub lost_answers: u8,
    /// Mails that are refused for now.
    pub refusals: u8,
    /// Standbys that take over, which may lack the last commits.
    pub failovers: u8,
    /// Dead letters that an operator puts back.
    pub retries: u8,
    /// Presses of a token's button.
    pub presses: u8,
    /// Tokens that the application cancels.
    pub cancels: u8,
    /// Whether tokens expire, all at once.
    pub expiries: u8,
}

/// A part of what can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What it is about.
    pub name: &'static str,
    /// How many machines with a collector and a sender.
    pub collectors: usize,
    /// How many tokens.
    pub tokens: usize,
    /// Whether a commit waits for the standby (`synchronous_commit = remote_apply`).
    pub waits_for_standby: bool,
    /// How often each thing happens.
    pub limits: Limits,
}

const NOTHING: Limits = Limits {
    claims: 3,
    breaks: 0,
    kills: 0,
    crashes: 0,
    suspensions: 0,
    lost_answers: 0,
    refusals: 0,
    failovers: 0,
    retries: 0,
    presses: 0,
    cancels: 0,
    expiries: 0,
};

const ONE: Scenario =
    Scenario { name: "", collectors: 1, tokens: 1, waits_for_standby: false, limits: NOTHING };

/// What is checked: each whole, and the small ones first.
pub const SCENARIOS: [Scenario; 8] = [
    Scenario {
        name: "connections to the database end",
        collectors: 2,
        limits: Limits { breaks: 2, refusals: 1, ..NOTHING },
        ..ONE
    },
    Scenario {
        name: "one machine that is killed again and again",
        limits: Limits { claims: 4, kills: 4, ..NOTHING },
        ..ONE
    },
    Scenario {
        name: "a standby takes over for which commits have waited",
        collectors: 2,
        waits_for_standby: true,
        limits: Limits { failovers: 1, breaks: 1, presses: 1, ..NOTHING },
        ..ONE
    },
    Scenario {
        name: "providers that do not answer",
        collectors: 2,
        limits: Limits { claims: 5, lost_answers: 4, retries: 1, expiries: 1, ..NOTHING },
        ..ONE
    },
    Scenario {
        name: "links are used, cancelled and expire while mails are on their way",
        collectors: 2,
        limits: Limits {
            lost_answers: 1,
            kills: 1,
            presses: 2,
            cancels: 1,
            expiries: 1,
            ..NOTHING
        },
        ..ONE
    },
    Scenario {
        name: "two tokens, and collectors that are killed or suspended",
        collectors: 2,
        tokens: 2,
        limits: Limits { kills: 1, suspensions: 1, ..NOTHING },
        ..ONE
    },
    Scenario {
        name: "a standby that lacks the last commits takes over",
        collectors: 2,
        tokens: 2,
        limits: Limits { failovers: 1, refusals: 1, ..NOTHING },
        ..ONE
    },
    Scenario {
        name: "a collector that is killed, suspended and cut off",
        collectors: 2,
        limits: Limits { breaks: 1, kills: 1, crashes: 1, suspensions: 1, ..NOTHING },
        ..ONE
    },
];
