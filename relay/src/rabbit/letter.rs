//! A message of the broker: what is written to it beside the mail or verdict, and read of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};

use super::queues::{KEPT, Key, key_of_pause, key_without_pause};
use crate::decision::Place;
use crate::message::{Class, Head, Mail, VERSION, now};

const VERSION_HEADER: &str = "mailroom-version";

/// By what one message is told from another one of the same mail, which somebody has put back.
const SEQUENCE_HEADER: &str = "mailroom-sequence";

/// How many earlier attempts ended in doubt.
const DOUBTS_HEADER: &str = "mailroom-doubts";

/// How often it was delivered before it was given back last.
const DELIVERED_HEADER: &str = "mailroom-delivered";

/// Before when it is not to be sent, in milliseconds since 1970.
const NOT_BEFORE_HEADER: &str = "mailroom-not-before";

/// Of the broker: how often it has given out the message and got no answer.
const BROKERS_COUNT: &str = "x-delivery-count";

/// The longest time that the broker takes for one until which a message lives.
const LONGEST_LIFE: Duration = Duration::from_secs(30 * 86_400);

/// Not waited for.
const SOON: Duration = Duration::from_millis(100);

const PERSISTENT: u8 = 2;

/// What the type of a message says.
const MAIL: &str = "mail";
const VERDICT: &str = "verdict";

/// A message, as it is published.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) key: String,
    pub(super) properties: BasicProperties,
    pub(super) text: Vec<u8>,
}

impl Letter {
    /// A mail, which lives no longer than its token.
    pub(super) fn of_mail(key: Key<'_>, mail: &Mail) -> Self {
        let life = mail.head.left(now()).min(LONGEST_LIFE).as_millis();
        let mut letter = Self::new(key, &mail.head.key, mail.item.clone().into_bytes());
        letter.properties = letter.properties.with_expiration(life.to_string().into());
        letter.set(SEQUENCE_HEADER, millis_since_1970());
        letter
    }

    /// Anything else.
    pub(super) fn new(key: Key<'_>, id: &str, text: Vec<u8>) -> Self {
        let properties = BasicProperties::default()
            .with_message_id(id.into())
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_type(if matches!(key, Key::Mail(..)) { MAIL } else { VERDICT }.into())
            .with_timestamp(u64::try_from(now()).unwrap_or_default());
        let mut letter = Self { key: key.text(), properties, text };
        letter.set(VERSION_HEADER, i64::from(VERSION));
        letter
    }

    /// What came.
    pub(super) fn read(delivery: &mut Delivery) -> Self {
        Self {
            key: key_without_pause(delivery.routing_key.as_str()).to_owned(),
            properties: std::mem::take(&mut delivery.properties),
            text: std::mem::take(&mut delivery.data),
        }
    }

    /// The same, to be published anew: at once, or to come again after a time.
    pub(super) fn again(&self, after: Option<Duration>, doubts: Option<u32>) -> Self {
        let mut letter = self.clone();
        let delivered = i64::try_from(self.delivered()).unwrap_or(i64::MAX);
        letter.forget_travels();
        letter.set(DELIVERED_HEADER, delivered);
        if let Some(doubts) = doubts {
            letter.set(DOUBTS_HEADER, i64::from(doubts));
        }
        if let Some(after) = after {
            let after_ms = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
            letter.set(NOT_BEFORE_HEADER, millis_since_1970().saturating_add(after_ms));
            letter.key = key_of_pause(&self.key, after);
        }
        letter
    }

    /// The same, to wait for the rest of its time. It was not delivered to anybody.
    pub(super) fn waiting_on(&self, rest: Duration) -> Self {
        let mut letter = self.clone();
        letter.forget_travels();
        letter.key = key_of_pause(&self.key, rest);
        letter
    }

    /// How long it is too early for it. A mail waits no longer than its link can be used: it would
    /// lapse at once where it waits, and come here for ever.
    pub(super) fn rest(&self) -> Option<Duration> {
        let rest = self.header(NOT_BEFORE_HEADER)?.saturating_sub(millis_since_1970());
        let rest = u64::try_from(rest).ok().map(Duration::from_millis)?;
        let most = self.head().map_or(LONGEST_LIFE, |head| head.left(now()));
        Some(rest.min(most)).filter(|rest| *rest > SOON)
    }

    pub(super) fn version(&self) -> Option<u32> {
        self.header(VERSION_HEADER).and_then(|version| u32::try_from(version).ok())
    }

    pub(super) fn doubts(&self) -> u32 {
        self.header(DOUBTS_HEADER).and_then(|doubts| u32::try_from(doubts).ok()).unwrap_or(0)
    }

    /// How often it has been delivered, from 1.
    pub(super) fn delivered(&self) -> u64 {
        let earlier = |header| self.header(header).and_then(|count| u64::try_from(count).ok());
        1 + earlier(DELIVERED_HEADER).unwrap_or(0) + earlier(BROKERS_COUNT).unwrap_or(0)
    }

    pub(super) fn place(&self) -> Place {
        let sequence = self.header(SEQUENCE_HEADER).and_then(|number| u64::try_from(number).ok());
        Place { sequence: sequence.unwrap_or(0), published_at: self.published_at() }
    }

    /// When it was published first, in seconds since 1970.
    pub(super) fn published_at(&self) -> i64 {
        let timestamp = self.properties.timestamp().unwrap_or_default();
        i64::try_from(timestamp).unwrap_or(i64::MAX)
    }

    pub(super) fn is_verdict(&self) -> bool {
        self.properties.kind().as_ref().is_some_and(|kind| kind.as_str() == VERDICT)
    }

    /// The same, back to where it was before it lapsed. `None` if it is over: it is no mail, its
    /// token has expired, or it was a verdict that nobody has taken for so long.
    pub(super) fn revived(&self) -> Option<Self> {
        let mut letter = self.clone();
        letter.forget_travels();
        if self.is_verdict() {
            letter.key = Key::Verdict.text();
            let kept = i64::try_from(KEPT.as_secs()).unwrap_or(i64::MAX);
            return Some(letter)
                .filter(|letter| now() < letter.published_at().saturating_add(kept));
        }
        let head = self.head()?;
        letter.key = Key::Mail(Class::of(&head), &head.action).text();
        Some(letter).filter(|_| !head.left(now()).is_zero())
    }

    fn head(&self) -> Option<Head> {
        let text = std::str::from_utf8(&self.text).ok().filter(|_| !self.is_verdict())?;
        Head::read(text)
    }

    fn header(&self, name: &str) -> Option<i64> {
        let headers = self.properties.headers().as_ref()?;
        match headers.inner().get(name)? {
            AMQPValue::LongLongInt(number) => Some(*number),
            AMQPValue::LongInt(number) => Some(i64::from(*number)),
            AMQPValue::LongUInt(number) => Some(i64::from(*number)),
            AMQPValue::ShortInt(number) => Some(i64::from(*number)),
            AMQPValue::ShortShortInt(number) => Some(i64::from(*number)),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: i64) {
        let mut headers = self.properties.headers().clone().unwrap_or_default();
        headers.insert(name.into(), AMQPValue::LongLongInt(value));
        self.properties = std::mem::take(&mut self.properties).with_headers(headers);
    }

    /// Without what the broker has noted of its travels, or it would take it for one that goes
    /// round in circles, and drop it. The life of a mail begins anew, and ends as before.
    fn forget_travels(&mut self) {
        let mut headers = FieldTable::default();
        for (name, value) in self.properties.headers().iter().flat_map(FieldTable::inner) {
            if !name.as_str().starts_with("x-") {
                headers.insert(name.clone(), value.clone());
            }
        }
        self.properties = std::mem::take(&mut self.properties).with_headers(headers);
        if let Some(head) = self.head() {
            let life = head.left(now()).min(LONGEST_LIFE).as_millis();
            let properties = std::mem::take(&mut self.properties);
            self.properties = properties.with_expiration(life.to_string().into());
        }
    }
}

fn millis_since_1970() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(expires_in: i64) -> Mail {
        let item = format!(
            concat!(
                r#"{{"id":7,"action":"recover","email":"ada@x.test","token":"secret","#,
                r#""expires_at":{},"key":"b9a16650bbdcba5dd0298fef5dd25661"}}"#
            ),
            now() + expires_in
        );
        Mail { head: Head::read(&item).unwrap(), item }
    }

    fn letter(expires_in: i64) -> Letter {
        Letter::of_mail(Key::Mail(Class::First, "recover"), &mail(expires_in))
    }

    #[test]
    fn a_mail_lives_no_longer_than_its_token_and_has_its_key() {
        let properties = letter(100).properties;
        let life: u64 = properties.expiration().as_ref().unwrap().as_str().parse().unwrap();
        assert!((98_000..=100_000).contains(&life), "{life}");
        let id = properties.message_id().as_ref().unwrap().as_str();
        assert_eq!(id, "b9a16650bbdcba5dd0298fef5dd25661");
        assert_eq!(letter(-1).properties.expiration().as_ref().unwrap().as_str(), "0");
    }

    #[test]
    fn what_comes_again_knows_how_often_it_came_and_its_doubts() {
        let first = letter(100);
        assert_eq!((first.delivered(), first.doubts(), first.rest()), (1, 0, None));
        let mut second = first.again(Some(Duration::from_secs(60)), Some(2));
        assert_eq!(second.key, "32.mail.first.recover");
        assert_eq!((second.delivered(), second.doubts()), (2, 2));
        assert_eq!(second.place().sequence, first.place().sequence);
        let rest = second.rest().unwrap();
        assert!(rest > Duration::from_secs(58), "{rest:?}");
        // Two senders were killed meanwhile.
        second.set(BROKERS_COUNT, 2);
        second.key = "mail.first.recover".to_owned();
        assert_eq!(second.delivered(), 4);
        let third = second.again(None, None);
        assert_eq!((third.delivered(), third.doubts()), (5, 2));
        assert!(third.header(BROKERS_COUNT).is_none());
        let waiting = second.waiting_on(Duration::from_secs(28));
        assert_eq!((waiting.key.as_str(), waiting.doubts()), ("16.mail.first.recover", 2));
    }

    #[test]
    fn a_mail_waits_no_longer_than_its_link_can_be_used() {
        for (expires_in, expected) in [(100, 98..=100), (-1, 0..=0)] {
            let mut letter = letter(expires_in);
            letter.set(NOT_BEFORE_HEADER, i64::MAX);
            let rest = letter.rest().unwrap_or_default();
            assert!(expected.contains(&rest.as_secs()), "{rest:?}");
        }
    }

    #[test]
    fn what_lapsed_goes_back_unless_it_is_over() {
        let mut lapsed = letter(100);
        lapsed.key = "lapsed".to_owned();
        assert_eq!(lapsed.revived().unwrap().key, "mail.first.recover");
        assert!(letter(-1).revived().is_none());
        let verdict = Letter::new(Key::Verdict, "b9", b"{}".to_vec());
        assert_eq!(verdict.revived().unwrap().key, "verdict");
        assert!(Letter::new(Key::Mail(Class::Other, ""), "", b"{}".to_vec()).revived().is_none());
        let mut odd = verdict;
        odd.properties = odd.properties.with_timestamp(u64::MAX);
        assert!(odd.revived().is_some());
    }
}
