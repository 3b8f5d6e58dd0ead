//! The broker that is tried.

use std::collections::HashSet;
use std::fmt::Write as _;

use anyhow::{Result, bail};
use base64ct::{Base64, Encoding as _};
use mailroom_tests::broker::Nats;
use mailroom_tests::rabbit::Rabbit;
use serde_json::{Value, json};

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

    /// What it says that it has: of NATS its counts, and each mail. RabbitMQ says it to nobody.
    pub(super) fn remains(&self) -> Result<String> {
        let Self::Nats(nats) = self else { return Ok(String::new()) };
        let queue = "mailroom";
        let details = json!({"deleted_details": true});
        let mut state = nats.ask(&format!("STREAM.INFO.{queue}"), &details)?["state"].take();
        let deleted: HashSet<u64> = serde_json::from_value(state["deleted"].take())?;
        let mut text = format!("the broker has {state}");
        let consumers = nats.ask(&format!("CONSUMER.LIST.{queue}"), &json!({}))?;
        for consumer in consumers["consumers"].as_array().into_iter().flatten() {
            let counts = ["delivered", "ack_floor", "num_ack_pending", "num_pending"];
            let counts = counts.map(|count| format!("{count} {}", consumer[count]));
            write!(text, "\n{}: {}", consumer["name"], counts.join(", "))?;
        }
        let ends = [&state["first_seq"], &state["last_seq"]].map(Value::as_u64);
        let [Some(first), Some(last)] = ends else { return Ok(text) };
        for sequence in (first..=last).filter(|sequence| !deleted.contains(sequence)) {
            let request = json!({"seq": sequence});
            let found = nats.ask(&format!("STREAM.MSG.GET.{queue}"), &request)?;
            let mail =
                found["message"]["data"].as_str().and_then(|data| Base64::decode_vec(data).ok());
            let mail: Value = serde_json::from_slice(&mail.unwrap_or_default()).unwrap_or_default();
            let (time, id) = (&found["message"]["time"], &mail["id"]);
            write!(text, "\nmessage {sequence} of {time}: token {id} {}", found["error"])?;
        }
        let log = nats.log();
        for line in log.lines().filter(|line| line.contains("[WRN]") || line.contains("[ERR]")) {
            write!(text, "\n{line}")?;
        }
        Ok(text)
    }
}
