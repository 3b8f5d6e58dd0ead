//! What can go wrong, and how often it does.

use crate::weights::choose;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    KillCollector,
    StopCollector,
    ClosePipe,
    FreezeCollector,
    KillSender,
    FreezeSender,
    AnswerTooLate,
    StopServerFast,
    StopServerAtOnce,
    EndSessions,
    CutAfterCommit,
    Cut,
    Stall,
    HalfOpen,
    ChangeClaimed,
    Unsuspend,
    CommitLate,
    FillDisk,
    FillOutput,
    TurnHostClock,
    TurnQueueClock,
}

/// How often each is chosen.
const WEIGHTS: [(Fault, usize); 21] = [
    (Fault::KillCollector, 12),
    (Fault::StopCollector, 5),
    (Fault::ClosePipe, 4),
    (Fault::FreezeCollector, 3),
    (Fault::KillSender, 8),
    (Fault::FreezeSender, 3),
    (Fault::AnswerTooLate, 2),
    (Fault::StopServerFast, 2),
    (Fault::StopServerAtOnce, 2),
    (Fault::EndSessions, 6),
    (Fault::CutAfterCommit, 10),
    (Fault::Cut, 6),
    (Fault::Stall, 2),
    (Fault::HalfOpen, 2),
    (Fault::ChangeClaimed, 12),
    (Fault::Unsuspend, 4),
    (Fault::CommitLate, 3),
    (Fault::FillDisk, 3),
    (Fault::FillOutput, 3),
    (Fault::TurnHostClock, 4),
    (Fault::TurnQueueClock, 2),
];

impl Fault {
    pub(crate) fn choose(random: &mut fastrand::Rng) -> Self {
        choose(&WEIGHTS, random)
    }

    /// As the counts at the end call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KillCollector => "kills of a collector",
            Self::StopCollector => "stops by SIGTERM",
            Self::ClosePipe => "closed pipes",
            Self::FreezeCollector => "frozen collectors",
            Self::KillSender => "kills of a sender",
            Self::FreezeSender => "frozen senders",
            Self::AnswerTooLate => "answers heard after the lease",
            Self::StopServerFast => "fast stops of the server",
            Self::StopServerAtOnce => "immediate stops of the server",
            Self::EndSessions => "terminations of all sessions",
            Self::CutAfterCommit => "cuts after COMMIT",
            Self::Cut => "cuts",
            Self::Stall => "stalls",
            Self::HalfOpen => "half-open connections",
            Self::ChangeClaimed => "changes of claimed tokens",
            Self::Unsuspend => "lifted suspensions",
            Self::CommitLate => "bursts of late commits",
            Self::FillDisk => "full disks",
            Self::FillOutput => "outputs to a full disk",
            Self::TurnHostClock => "hosts whose clock is an hour off",
            Self::TurnQueueClock => "jumps of the queue's clock",
        }
    }
}
