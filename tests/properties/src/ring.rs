//! The keys that the properties sign and verify with.

use std::sync::LazyLock;

use mailroom_verifier_core::{
    Action, Actions, Further, PrivateKey, SharedKey, Signer, VerifyingKey,
};

use crate::oracle::{Key, Private, Shared};

/// Shared keys: those of the vectors, two that have the same id,
/// and one that has the id of a public key.
const SHARED: [[u8; 32]; 7] = [
    bytes("f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814"),
    bytes("7669e7b5ca4cf79d832ed722028d0c524f7a3473532468a3eff9af7301032d09"),
    bytes("28a20443f711ac77fa4e8bf89558fb8afdc3574566c5410a6d0a1e619bd7d820"),
    bytes("286c5e9eaf3a01865fcce6b288b47ecbb36d7274b1ba528ca1a339f84b36e078"),
    numbered(22_616),
    numbered(28_638),
    numbered(132_244),
];

/// Seeds, in the same order.
const SEEDS: [[u8; 32]; 5] = [
    bytes("78049d9cb6636b14c622f73d1f61d20a028660d67c736b4502e04616a19fd289"),
    bytes("1970dd324416f34af273996999a461d56b949bbf25fd274eb082e0953cb7f90c"),
    numbered(44_663),
    numbered(128_211),
    numbered(899),
];

/// What an installation defines; those of `tests/vectors/actions.json`.
const FURTHER: [Further; 3] = [
    Further { number: 3, name: "change_email", path: "/change_email", digits: 6 },
    Further { number: 4, name: "invite", path: "/invite", digits: 0 },
    Further { number: 127, name: "sign_in", path: "/sign_in", digits: 8 },
];

pub(crate) static ACTIONS: LazyLock<Actions<[Further; 3]>> =
    LazyLock::new(|| Actions::new(FURTHER).expect("each has its own number, name and path"));

/// All that [`ACTIONS`] has.
pub static KNOWN: LazyLock<Vec<Action>> = LazyLock::new(|| ACTIONS.iter().collect());

/// The action that a byte stands for: a half of them for those of every installation.
pub(crate) fn action(byte: u8) -> Action {
    let (built_in, further) = KNOWN.split_at(2);
    let of = if byte < 128 { built_in } else { further };
    of[usize::from(byte) % of.len()]
}

/// A key on both sides of the comparison.
pub(crate) struct Both {
    pub(crate) oracle: Known,
    pub(crate) verifying: VerifyingKey,
    /// Signs v1 and v2, or v3.
    signing: Signing,
}

pub(crate) enum Known {
    Shared(Shared),
    Private(Private),
}

enum Signing {
    Shared(SharedKey),
    Private(Box<PrivateKey>),
}

impl Both {
    fn shared(bytes: [u8; 32]) -> Self {
        let key = SharedKey::from(&bytes);
        Self {
            oracle: Known::Shared(Shared::new(bytes)),
            verifying: key.clone().into(),
            signing: Signing::Shared(key),
        }
    }

    fn private(seed: [u8; 32]) -> Self {
        let key = PrivateKey::from_seed(&seed);
        Self {
            oracle: Known::Private(Private::new(seed)),
            verifying: key.public_key().clone().into(),
            signing: Signing::Private(Box::new(key)),
        }
    }

    pub(crate) fn oracle(&self) -> Key<'_> {
        match &self.oracle {
            Known::Shared(key) => Key::Shared(key),
            Known::Private(key) => Key::Private(key),
        }
    }

    /// A signer of this key, and its version; a shared key signs v1 if `old`.
    pub(crate) fn signer(&self, old: bool) -> (u8, Signer) {
        match &self.signing {
            Signing::Shared(key) if old => (1, Signer::V1(key.clone())),
            Signing::Shared(key) => (2, Signer::V2(key.clone())),
            Signing::Private(key) => (3, Signer::V3(PrivateKey::clone(key))),
        }
    }
}

/// All twelve keys.
pub(crate) static KEYS: LazyLock<Vec<Both>> = LazyLock::new(|| {
    SHARED.into_iter().map(Both::shared).chain(SEEDS.into_iter().map(Both::private)).collect()
});

const fn numbered(number: u32) -> [u8; 32] {
    let [b0, b1, b2, b3] = number.to_be_bytes();
    let mut bytes = [0; 32];
    bytes[0] = b0;
    bytes[1] = b1;
    bytes[2] = b2;
    bytes[3] = b3;
    bytes
}

const fn bytes(hexadecimal: &str) -> [u8; 32] {
    let digits = hexadecimal.as_bytes();
    let mut bytes = [0; 32];
    let mut index = 0;
    while index < 32 {
        bytes[index] = digit(digits[2 * index]) << 4 | digit(digits[2 * index + 1]);
        index += 1;
    }
    bytes
}

const fn digit(character: u8) -> u8 {
    match character {
        b'0'..=b'9' => character - b'0',
        b'a'..=b'f' => character - b'a' + 10,
        _ => panic!("no hexadecimal digit"),
    }
}
