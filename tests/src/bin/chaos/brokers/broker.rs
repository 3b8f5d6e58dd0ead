//! The broker that is tried.

use anyhow::{Result, bail};
use mailroom_tests::broker::Nats;
use mailroom_tests::rabbit::Rabbit;

/// Which broker is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nats,
    Rabbit,
}

impl Kind {
    pub(super) fn of(name: &str) -> Result<Self> {
        match name {
            "nats" => Ok(Self::Nats),
            "rabbitmq" => Ok(Self::Rabbit),
            _ => bail!("{name:?} is no broker: name nats or rabbitmq"),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::Rabbit => "rabbitmq",
        }
    }
}

pub(super) enum Broker {
    Nats(Nats),
    Rabbit(Rabbit),
}

impl Broker {
    pub(super) fn start(kind: Kind) -> Result<Option<Self>> {
        Ok(match kind {
            Kind::Nats => Nats::start(&[])?.map(Self::Nats),
            Kind::Rabbit => Rabbit::start()?.map(Self::Rabbit),
        })
    }

    pub(super) fn run(&mut self) -> Result<()> {
        match self {
            Self::Nats(nats) => nats.run(),
            Self::Rabbit(rabbit) => rabbit.run(),
        }
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        match self {
            Self::Nats(nats) => nats.kill(),
            Self::Rabbit(rabbit) => rabbit.kill(),
        }
    }

    /// Fails if it does not run.
    pub(super) fn pause(&self) -> Result<()> {
        match self {
            Self::Nats(nats) => nats.pause(),
            Self::Rabbit(rabbit) => rabbit.pause(),
        }
    }

    pub(super) fn resume(&self) -> Result<()> {
        match self {
            Self::Nats(nats) => nats.resume(),
            Self::Rabbit(rabbit) => rabbit.resume(),
        }
    }

    pub(super) fn port(&self) -> u16 {
        match self {
            Self::Nats(nats) => nats.port(),
            Self::Rabbit(rabbit) => rabbit.port(),
        }
    }
}
