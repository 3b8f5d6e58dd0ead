//! Which broker a URL names.

use crate::Error;
use crate::access::BrokerArguments;
#[cfg(not(feature = "rabbitmq"))]
use crate::access::unusable_url;
use crate::nats::{self, Nats};
#[cfg(feature = "rabbitmq")]
use crate::rabbit::{self, Rabbit};

/// The broker that a URL names.
pub(crate) enum Connected {
    Nats(Nats),
    #[cfg(feature = "rabbitmq")]
    Rabbit(Rabbit),
}

impl Connected {
    /// Begins to connect, for ever.
    ///
    /// # Errors
    /// Arguments that cannot be used.
    pub(crate) async fn to(arguments: &BrokerArguments, name: &str) -> Result<Self, Error> {
        if arguments.is_amqp() {
            #[cfg(feature = "rabbitmq")]
            return Ok(Self::Rabbit(Rabbit::connect(arguments, name)?));
            #[cfg(not(feature = "rabbitmq"))]
            return Err(without_amqp());
        }
        Ok(Self::Nats(Nats::connect(arguments, name).await?))
    }
}

/// Finds out whether a URL can be used.
fn check(arguments: &BrokerArguments) -> Result<(), Error> {
    if arguments.is_amqp() {
        #[cfg(feature = "rabbitmq")]
        return rabbit::servers(arguments).map(drop);
        #[cfg(not(feature = "rabbitmq"))]
        return Err(without_amqp());
    }
    nats::servers(arguments).map(drop)
}

/// Where verdicts come from.
#[derive(Clone, Debug)]
pub struct VerdictsFrom {
    pub(crate) broker: BrokerArguments,
}

impl VerdictsFrom {
    /// Reads the URL of a broker, and what else can be said to `mailroom relay`.
    ///
    /// # Errors
    /// Other words, and URLs that cannot be used; what they are is not repeated.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        #[derive(clap::Parser)]
        struct Words {
            #[command(flatten)]
            broker: BrokerArguments,
        }
        let words = ["relay", "--to"].into_iter().chain(words.iter().map(String::as_str));
        let words = <Words as clap::Parser>::try_parse_from(words).map_err(
            |_| "must be the URL of a broker, and after it what else `mailroom relay` is given",
        )?;
        check(&words.broker).map_err(|error| format!("cannot be used: {error}"))?;
        Ok(Self { broker: words.broker })
    }

    /// The servers, of which none is named with a password.
    pub fn url(&self) -> &str {
        &self.broker.to
    }
}

/// What is said of RabbitMQ by a program that does not know it.
#[cfg(not(feature = "rabbitmq"))]
fn without_amqp() -> Error {
    unusable_url("is one of RabbitMQ, and this program is built without the feature rabbitmq")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Relay;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        relay: Relay,
    }

    fn servers(url: &str, more: &[&str]) -> Result<usize, String> {
        let words = ["relay", "--to", url].into_iter().chain(more.iter().copied());
        let program = Program::try_parse_from(words).map_err(|error| error.to_string())?;
        let broker = program.relay.broker;
        #[cfg(feature = "rabbitmq")]
        if broker.is_amqp() {
            let servers = crate::rabbit::servers(&broker).map_err(|error| error.to_string())?;
            return Ok(servers.len());
        }
        Ok(crate::nats::servers(&broker).map_err(|error| error.to_string())?.len())
    }

    #[test]
    fn a_link_goes_to_another_machine_by_tls_alone() {
        assert_eq!(servers("nats://127.0.0.1:4222", &[]), Ok(1));
        assert_eq!(servers("nats://localhost,nats://[::1]:4223", &[]), Ok(2));
        assert_eq!(servers("tls://broker.test", &[]), Ok(1));
        let error = servers("nats://broker.test", &[]).unwrap_err();
        assert!(error.contains("without TLS"), "{error}");
        assert!(servers("nats://127.0.0.1,nats://10.0.0.1", &[]).is_err());
        assert_eq!(servers("nats://10.0.0.1", &["--without-tls"]), Ok(1));
    }

    #[cfg(feature = "rabbitmq")]
    #[test]
    fn a_link_goes_to_rabbitmq_by_tls_alone() {
        assert_eq!(servers("amqp://127.0.0.1:5672", &[]), Ok(1));
        assert_eq!(servers("amqp://localhost,amqp://[::1]:5673/mails", &[]), Ok(2));
        assert_eq!(servers("amqps://broker.test/mails", &[]), Ok(1));
        let error = servers("amqp://broker.test", &[]).unwrap_err();
        assert!(error.contains("without TLS: write amqps://"), "{error}");
        assert_eq!(servers("amqp://broker.test", &["--without-tls"]), Ok(1));
        let error = servers("amqp://127.0.0.1,nats://127.0.0.1", &[]).unwrap_err();
        assert!(error.contains("amqps://HOST:PORT"), "{error}");
        let error = servers("amqps://ada:secret@broker.test", &[]).unwrap_err();
        assert!(error.contains("--password-file") && !error.contains("secret"), "{error}");
        let error = servers("amqps://broker.test", &["--replicas", "3"]).unwrap_err();
        assert!(error.contains("--replicas"), "{error}");
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        for url in ["tls://ada:secret@broker.test", "tls://secret@broker.test", "tls://:secret@b"] {
            let error = servers(url, &[]).unwrap_err();
            assert!(error.contains("--password-file") && !error.contains("secret"), "{error}");
        }
        let error = servers("http://ada:secret@broker.test", &[]).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn verdicts_come_from_what_a_relay_is_given() {
        let from = |text: &str| {
            let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
            VerdictsFrom::parse(&words)
                .map(|from| (from.url().to_owned(), from.broker.access.queue))
        };
        let tls = "tls://broker.test";
        assert_eq!(from(tls), Ok((tls.to_owned(), "mailroom".to_owned())));
        let named = from("tls://broker.test --queue shop --user a --password-file /dev/null");
        assert_eq!(named, Ok((tls.to_owned(), "shop".to_owned())));
        for text in ["", "tls://a:secret@b", "nats://b.test", "tls://b --secret", "tls://b secret"]
        {
            assert!(from(text).is_err_and(|error| !error.contains("secret")), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_queue_is_a_word_of_a_subject() {
        for name in ["", "a.b", "a b", "*", "A", ">"] {
            assert!(servers("nats://127.0.0.1", &["--queue", name]).is_err(), "{name}");
        }
    }
}
