//! Who reports bounces and complaints. One provider is one file; each proves a notification before
//! it reads it.

pub(crate) mod postmark;
pub(crate) mod resend;
pub(crate) mod ses;

use std::fmt;
use std::marker::PhantomData;

use hyper::HeaderMap;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::notice::{Notice, Refusal};

/// A notification as it came.
pub(crate) struct Request<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
    /// The time, in seconds since the Unix epoch.
    pub(crate) now: u64,
}

impl<'a> Request<'a> {
    /// The value of a header that stands there once.
    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok();
        value.filter(|_| values.next().is_none())
    }
}

/// Who sends notifications.
pub(crate) trait Provider: Send + Sync {
    /// Its name; also the path of its webhooks, and what the database knows it by.
    fn name(&self) -> &'static str;

    /// The media types of its notifications.
    fn media_types(&self) -> &'static [&'static str] {
        &["application/json"]
    }

    /// Authenticates and parses a notification. Returns no notices if no address is to be
    /// suppressed, such as for a soft bounce. May block.
    ///
    /// # Errors
    /// It is not authentic, cannot be parsed, or cannot be authenticated just now.
    fn read(&self, request: &Request<'_>) -> Result<Vec<Notice>, Refusal>;
}

/// Reads a JSON object of which only some members are known. Its depth is bounded by the parser; a
/// known member stands there once.
pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map(|Object(value)| value)
        .map_err(|_| Refusal::Unreadable("it is not the JSON that this provider documents"))
}

/// A JSON object: a derived struct would also take the list of its values.
#[derive(Default)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}
