//! The keys that a verifier accepts.

use core::fmt;

use crate::{
    actions::KnownActions,
    header::KeyId,
    key_index::KeyIndex,
    shared_key::{InvalidKey, SharedKey},
};

#[cfg(feature = "public")]
use crate::ed25519::PublicKey;

/// A key that verifies. Its kind decides which formats it can verify; a token never chooses.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum VerifyingKey {
    /// Verifies v1 and v2.
    Shared(SharedKey),
    /// Verifies v3.
    #[cfg(feature = "public")]
    Public(PublicKey),
}

impl VerifyingKey {
    /// Reads any text form of a key that verifies: 64 hexadecimal characters or, with the feature
    /// `public`, `mrpk_…`.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, InvalidKey> {
        let text = text.as_ref();
        #[cfg(feature = "public")]
        if text.starts_with(b"mrpk_") {
            return PublicKey::parse(text).map(Self::Public);
        }
        SharedKey::from_hex(text).map(Self::Shared)
    }

    const fn id(&self) -> KeyId {
        match self {
            Self::Shared(key) => key.id(),
            #[cfg(feature = "public")]
            Self::Public(key) => key.id(),
        }
    }
}

impl From<SharedKey> for VerifyingKey {
    fn from(key: SharedKey) -> Self {
        Self::Shared(key)
    }
}

#[cfg(feature = "public")]
impl From<PublicKey> for VerifyingKey {
    fn from(key: PublicKey) -> Self {
        Self::Public(key)
    }
}

/// The keys that a verifier accepts: the current one, and any number of others, earlier or
/// upcoming; and the actions.
///
/// `K` is whatever holds them: `[VerifyingKey; 1]`, a borrowed slice, a `Vec`.
#[derive(Clone)]
pub struct KeyRing<K = [VerifyingKey; 1]> {
    keys: K,
    /// Only for rings in which it is faster than a scan.
    index: Option<KeyIndex>,
    actions: KnownActions,
}

/// Up to this many keys, a scan is as fast as the index.
const WITHOUT_INDEX: usize = 4;

impl KeyRing {
    /// A ring of one key.
    pub fn of(key: impl Into<VerifyingKey>) -> Self {
        Self { keys: [key.into()], index: None, actions: KnownActions::BUILT_IN }
    }
}

impl<K> KeyRing<K> {
    /// Accepts tokens of these actions; without this call only `activate` and `recover`. A second
    /// call replaces the first.
    #[must_use]
    pub fn knowing(mut self, actions: impl Into<KnownActions>) -> Self {
        self.know(actions);
        self
    }

    /// As [`knowing`](Self::knowing), in place.
    pub fn know(&mut self, actions: impl Into<KnownActions>) {
        self.actions = actions.into();
    }

    /// The actions whose tokens verify.
    pub const fn actions(&self) -> &KnownActions {
        &self.actions
    }
}

impl<K: AsRef<[VerifyingKey]>> KeyRing<K> {
    /// A ring of all `keys`.
    ///
    /// # Errors
    /// [`NoKey`] for an empty sequence, which could verify nothing.
    pub fn new(keys: K) -> Result<Self, NoKey> {
        let index = match keys.as_ref() {
            [] => return Err(NoKey),
            few if few.len() <= WITHOUT_INDEX => None,
            many => Some(KeyIndex::new(many.iter().map(VerifyingKey::id))),
        };
        Ok(Self { keys, index, actions: KnownActions::BUILT_IN })
    }

    /// Every key, in the order given.
    pub fn keys(&self) -> &[VerifyingKey] {
        self.keys.as_ref()
    }

    /// The shared keys; a v1 token names none, so all of them are tried.
    #[cfg_attr(
        not(feature = "public"),
        expect(clippy::unnecessary_filter_map, reason = "without v3 every key is a shared one")
    )]
    pub(crate) fn shared(&self) -> impl Iterator<Item = &SharedKey> {
        self.keys().iter().filter_map(|key| match key {
            VerifyingKey::Shared(key) => Some(key),
            #[cfg(feature = "public")]
            VerifyingKey::Public(_) => None,
        })
    }

    /// The keys that a v2 or v3 token may mean by this id.
    pub(crate) fn named(&self, id: KeyId) -> impl Iterator<Item = &VerifyingKey> {
        let (places, rest) = match &self.index {
            Some(index) => (Some(index.places(id)), KeyIndex::CAPACITY),
            None => (None, 0),
        };
        let keys = self.keys();
        let indexed = places.into_iter().flatten().filter_map(|place| keys.get(place));
        indexed.chain(keys.get(rest..).unwrap_or_default()).filter(move |key| key.id() == id)
    }
}

impl<K: fmt::Debug> fmt::Debug for KeyRing<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// A key ring without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoKey;

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key ring needs at least one key")
    }
}

impl core::error::Error for NoKey {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{
        Action, Code, Expected, Expiry, Moment, Secret, UntrustedToken, hmac::count, v1, v2,
    };
    use std::{format, vec::Vec};

    /// A ring of `keys` shared keys; the one of 0x5a is at `place`, or not in it.
    fn ring_of(keys: u8, place: Option<u8>) -> KeyRing<Vec<VerifyingKey>> {
        let key = |number| {
            SharedKey::from(&[if Some(number) == place { 0x5a } else { number + 100 }; 32]).into()
        };
        KeyRing::new((0..keys).map(key).collect()).unwrap()
    }

    #[test]
    fn a_ring_of_a_hundred_keys_verifies_v2_with_as_many_tags_as_a_ring_of_one() {
        let (key, secret) = (SharedKey::from(&[0x5a; 32]), Secret::from([7; 32]));
        let (expires_at, moment) = (Expiry::from_seconds(1000).unwrap(), Moment::at(0));
        let code = Code::parse("04711").unwrap();
        let activation = v2::sign_activation(&key, &secret, expires_at);
        let recovery = v2::sign(&key, Action::Recover, &secret, expires_at, Some(&code)).unwrap();
        let tags = |token: &str, expected, ring: &KeyRing<Vec<VerifyingKey>>, accepted| {
            let token = UntrustedToken::parse(token).unwrap();
            count::tags(|| assert_eq!(token.verify(ring, expected, moment).is_ok(), accepted))
        };
        for (keys, place) in [(1, 0), (100, 0), (100, 50), (100, 99)] {
            let ring = ring_of(keys, Some(place));
            assert_eq!(tags(activation.as_str(), Expected::activation(), &ring, true), 1);
            assert_eq!(tags(recovery.as_str(), Expected::recovery("04711"), &ring, true), 2);
        }
        // A key id that the ring does not have is refused without a tag; of a v1 token, which names
        // none, all are tried.
        let strangers = ring_of(100, None);
        assert_eq!(tags(activation.as_str(), Expected::activation(), &strangers, false), 0);
        let first = v1::sign_activation(&key, &secret);
        assert_eq!(tags(first.as_str(), Expected::activation(), &strangers, false), 100);
    }

    #[test]
    fn a_ring_without_a_key_is_refused() {
        assert_eq!(KeyRing::new(Vec::new()).unwrap_err(), NoKey);
    }

    #[test]
    fn debug_output_hides_shared_keys() {
        let ring = KeyRing::of(SharedKey::from(&[3; 32]));
        assert_eq!(format!("{ring:?}"), "KeyRing { keys: [Shared(SharedKey(..))], .. }");
    }
}
