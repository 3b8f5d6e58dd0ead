//! People who register, and what is known of their mails beforehand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::fixtures::Fixtures as _;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_postgres::Client;

/// How long the tokens live that may expire on their way.
const SHORT_LIFE: std::ops::Range<i64> = 5..30;

/// What is known of a mail by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Person {
    /// It is accepted.
    Plain,
    /// It is accepted, and has the first priority.
    Recovering,
    /// There is no such recipient.
    Gone,
    /// It is refused for now, the first time.
    Busy,
    /// Its connection is lost after the content, the first time.
    Cut,
    /// Its token expires soon.
    Hasty,
}

impl Person {
    fn choose(random: &mut fastrand::Rng) -> Self {
        match random.u8(0..100) {
            0..80 => Self::Plain,
            80..88 => Self::Recovering,
            88..91 => Self::Gone,
            91..95 => Self::Busy,
            95..97 => Self::Cut,
            _ => Self::Hasty,
        }
    }

    fn address(self, number: usize) -> String {
        let name = match self {
            Self::Plain => "plain",
            Self::Recovering => "recovering",
            Self::Gone => "gone",
            Self::Busy => "rcpt-451-first-",
            Self::Cut => "cut",
            Self::Hasty => "hasty",
        };
        format!("{name}{number}@x.test")
    }

    /// Whose address it is.
    pub(super) fn of(address: &str) -> Option<Self> {
        let all = [Self::Plain, Self::Recovering, Self::Gone, Self::Busy, Self::Cut, Self::Hasty];
        all.into_iter().find(|person| {
            let begin = person.address(0);
            address.starts_with(begin.trim_end_matches("0@x.test"))
        })
    }

    /// Registers one.
    pub(super) async fn register(
        self,
        client: &Client,
        number: usize,
        lifetime: i64,
    ) -> Result<()> {
        let address = self.address(number);
        let account = client.account(&address).email(&address);
        if matches!(self, Self::Recovering | Self::Hasty) {
            let account = account.active().insert().await?;
            client.token().recovery().of(account).living(lifetime).insert().await?;
        } else {
            account.insert().await?;
        }
        Ok(())
    }
}

/// Registers people until it is ended.
pub(super) struct Load {
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<()>>,
    registered: Arc<AtomicUsize>,
}

impl Load {
    pub(super) fn start(client: Client, seed: u64) -> Self {
        let (stop, stopped) = watch::channel(false);
        let registered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&registered);
        let task = tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(seed);
            while !*stopped.borrow() {
                for _ in 0..random.usize(1..8) {
                    let number = count.load(Ordering::Relaxed);
                    let person = Person::choose(&mut random);
                    let lifetime =
                        if person == Person::Hasty { random.i64(SHORT_LIFE) } else { 86_400 };
                    person.register(&client, number, lifetime).await?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                sleep(Duration::from_millis(random.u64(0..1_000))).await;
            }
            Ok(())
        });
        Self { stop, task, registered }
    }

    pub(super) fn registered(&self) -> usize {
        self.registered.load(Ordering::Relaxed)
    }

    pub(super) async fn end(self) -> Result<usize> {
        self.stop.send_replace(true);
        self.task.await??;
        Ok(self.registered.load(Ordering::Relaxed))
    }
}
