//! Whether every reader of a line can read a payload. A reader that cannot loses the whole line,
//! with the other tokens of its batch.
//!
//! `mailroom.payload_fault` allows no more, so that only a row which was inserted
//! by hand is beyond these limits.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The most bytes.
const MAX_BYTES: usize = 8_192;

/// The most levels of lists and objects. `serde_json` reads 127, three of which are the line's.
const DEEPEST: usize = 100;

/// Shortly below the largest number of 64 bits, where parsers round to infinity. `enqueue` stops at
/// 1e308, which all round alike.
const TOO_LARGE: f64 = 1.7e308;

pub(super) const NOT_JSON: &str = "what is not JSON";
const TOO_LONG: &str = "more than 8192 bytes";
const TOO_DEEP: &str = "more than 100 levels";
const NUMBER: &str = "a number that is too large";

/// The error names the part that some reader cannot read.
pub(super) fn check(payload: &str) -> Result<(), &'static str> {
    if payload.len() > MAX_BYTES {
        return Err(TOO_LONG);
    }
    let fault = Cell::new(NOT_JSON);
    let mut deserializer = serde_json::Deserializer::from_str(payload);
    let read = Value { levels: DEEPEST, fault: &fault }.deserialize(&mut deserializer);
    match read.and_then(|()| deserializer.end()) {
        Ok(()) => Ok(()),
        // The parser's own limit of numbers.
        Err(error) if error.to_string().starts_with("number out of range") => Err(NUMBER),
        Err(_) => Err(fault.get()),
    }
}

/// Any value of at most this many levels. It is parsed as a reader would parse it, and dropped.
#[derive(Clone, Copy)]
struct Value<'a> {
    levels: usize,
    fault: &'a Cell<&'static str>,
}

impl Value<'_> {
    fn refuse<E: Error>(self, fault: &'static str) -> E {
        self.fault.set(fault);
        E::custom(fault)
    }

    fn inner<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1).ok_or_else(|| self.refuse(TOO_DEEP))?;
        Ok(Self { levels, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        if number.abs() < TOO_LARGE { Ok(()) } else { Err(self.refuse(NUMBER)) }
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while list.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while object.next_key_seed(inner)?.is_some() {
            object.next_value_seed(inner)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_refused_from_the_first_byte_level_or_number_on_that_some_reader_cannot_read() {
        let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let objects = |levels| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        for (payload, fault) in [
            (long(MAX_BYTES), None),
            (long(MAX_BYTES + 1), Some(TOO_LONG)),
            (nested(DEEPEST), None),
            (nested(DEEPEST + 1), Some(TOO_DEEP)),
            (nested(4_000), Some(TOO_DEEP)),
            (objects(DEEPEST), None),
            (objects(DEEPEST + 1), Some(TOO_DEEP)),
            (format!("[-{}]", "9".repeat(308)), None),
            (format!("[1{}]", "0".repeat(308)), None),
            (format!("[17{}]", "0".repeat(307)), Some(NUMBER)),
            (format!("{{\"a\":-1{}}}", "0".repeat(400)), Some(NUMBER)),
            ("1e400".to_owned(), Some(NUMBER)),
            (format!("0.{}1", "0".repeat(400)), None),
            (r#"{"a":["\ud83d\ude00", null, true, -5]}"#.to_owned(), None),
            (r#"{"a":"\ud83d"}"#.to_owned(), Some(NOT_JSON)),
            (r#"{"\ud83d":1}"#.to_owned(), Some(NOT_JSON)),
            ("{} {}".to_owned(), Some(NOT_JSON)),
        ] {
            assert_eq!(check(&payload).err(), fault, "{payload:.60}");
        }
    }
}
