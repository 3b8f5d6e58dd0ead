//! What happens to broker, relay, collector and senders, and how often.

use std::time::Duration;

use anyhow::Result;

use super::mending::{Mend, Who};
use super::site::{MACHINES, Site, WAYS};
use crate::weights::choose;

/// Longer than it takes until a mail goes to another machine, and than an answer is waited for.
const LONG: u64 = 12_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    KillBroker,
    FreezeBroker,
    PartitionBroker,
    KillSender,
    StopSender,
    FreezeSender,
    LoseMachine,
    CutWay,
    StallWay,
    HalfOpenWay,
    SwallowAnswers,
    KillRelay,
    FreezeRelay,
    KillCollector,
    StopCollector,
    RefuseMails,
}

/// How often each is chosen.
const WEIGHTS: [(Fault, usize); 16] = [
    (Fault::KillBroker, 12),
    (Fault::FreezeBroker, 5),
    (Fault::PartitionBroker, 3),
    (Fault::KillSender, 12),
    (Fault::StopSender, 4),
    (Fault::FreezeSender, 3),
    (Fault::LoseMachine, 2),
    (Fault::CutWay, 6),
    (Fault::StallWay, 4),
    (Fault::HalfOpenWay, 3),
    (Fault::SwallowAnswers, 3),
    (Fault::KillRelay, 8),
    (Fault::FreezeRelay, 3),
    (Fault::KillCollector, 6),
    (Fault::StopCollector, 3),
    (Fault::RefuseMails, 3),
];

impl Fault {
    pub(super) fn choose(random: &mut fastrand::Rng) -> Self {
        choose(&WEIGHTS, random)
    }

    /// As the counts at the end call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KillBroker => "kills of the broker",
            Self::FreezeBroker => "frozen brokers",
            Self::PartitionBroker => "partitions of the broker",
            Self::KillSender => "kills of a sender",
            Self::StopSender => "stops of a sender",
            Self::FreezeSender => "frozen senders",
            Self::LoseMachine => "lost machines",
            Self::CutWay => "cut connections",
            Self::StallWay => "stalls",
            Self::HalfOpenWay => "half-open connections",
            Self::SwallowAnswers => "swallowed answers",
            Self::KillRelay => "kills of the relay",
            Self::FreezeRelay => "frozen relays",
            Self::KillCollector => "kills of the collector",
            Self::StopCollector => "stops of the collector",
            Self::RefuseMails => "outages of the mail server",
        }
    }

    /// Lets it happen, and plans its end.
    pub(super) fn inflict(self, site: &mut Site, random: &mut fastrand::Rng) -> Result<()> {
        let machine = random.usize(..MACHINES);
        let way = random.usize(..WAYS);
        let brief = Duration::from_millis(random.u64(0..3_000));
        let long = Duration::from_millis(random.u64(0..LONG));
        let of_way = if way == 0 { Who::Relay } else { Who::Machine(way - 1) };
        match self {
            Self::KillBroker => {
                site.broker.kill()?;
                site.note(self.name(), Who::Broker, brief, Mend::StartBroker);
            }
            Self::FreezeBroker => {
                site.broker.pause().ok();
                site.note(self.name(), Who::Broker, long, Mend::ContinueBroker);
            }
            Self::PartitionBroker => {
                site.ways.iter().for_each(mailroom_tests::proxy::Proxy::stall);
                site.note(self.name(), Who::Broker, long, Mend::ResumeAll);
            }
            Self::KillSender => {
                site.kill_sender(machine)?;
                site.note(self.name(), Who::Machine(machine), brief, Mend::StartSender(machine));
            }
            Self::StopSender => {
                site.stop_sender(machine)?;
                site.note(self.name(), Who::Machine(machine), brief, Mend::StartSender(machine));
            }
            Self::FreezeSender => {
                site.freeze_sender(machine)?;
                let mend = Mend::ContinueSender(machine);
                site.note(self.name(), Who::Machine(machine), long, mend);
            }
            Self::LoseMachine => {
                site.lose_machine(machine)?;
                site.note(self.name(), Who::Machine(machine), brief, Mend::StartSender(machine));
            }
            Self::CutWay => {
                site.ways[way].cut();
                site.note(self.name(), of_way, Duration::ZERO, Mend::Nothing);
            }
            Self::StallWay => {
                site.ways[way].stall();
                site.note(self.name(), of_way, long, Mend::Resume(way));
            }
            Self::HalfOpenWay => {
                // They stay of no use, until that is noticed.
                site.ways[way].half_open();
                site.note(self.name(), of_way, long, Mend::Restore(way));
            }
            Self::SwallowAnswers => {
                site.ways[way].swallow_answers();
                site.note(self.name(), of_way, long, Mend::Cut(way));
            }
            Self::KillRelay => {
                site.signal_relay(rustix::process::Signal::KILL)?;
                site.note(self.name(), Who::Relay, Duration::ZERO, Mend::Nothing);
            }
            Self::FreezeRelay => {
                let relay = site.signal_relay(rustix::process::Signal::STOP)?;
                site.note(self.name(), Who::Relay, long, Mend::ContinueRelay(relay));
            }
            Self::KillCollector => {
                site.kill_collector()?;
                site.note(self.name(), Who::Relay, brief, Mend::StartCollector);
            }
            Self::StopCollector => {
                site.stop_collector()?;
                site.note(self.name(), Who::Relay, brief, Mend::StartCollector);
            }
            Self::RefuseMails => {
                site.server.refuse(true);
                site.note(self.name(), Who::MailServer, brief, Mend::AcceptMails);
            }
        }
        Ok(())
    }
}
