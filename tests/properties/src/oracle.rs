//! Judges tokens the slow way: each step of docs/reference/token-format.md as it is written there,
//! with other crates than the verifier's and nothing prepared but what a key stands for.

use ed25519_compact::{KeyPair, Seed};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use mailroom_verifier_core::Action;
use sha2::{Digest, Sha256};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What a shared key stands for.
#[derive(Debug)]
pub struct Shared {
    key: [u8; 32],
    link: [u8; 32],
    code: [u8; 32],
    id: [u8; 4],
}

impl Shared {
    /// Derives all that v2 needs.
    pub fn new(key: [u8; 32]) -> Self {
        let derived = Hkdf::<Sha256>::new(None, &key);
        let expand = |info: &str| {
            let mut output = [0; 32];
            derived.expand(info.as_bytes(), &mut output).expect("HKDF gives up to 8,160 bytes");
            output
        };
        let [i0, i1, i2, i3, ..] = expand("mailroom/v2 key id");
        Self {
            key,
            link: expand("mailroom/v2 link"),
            code: expand("mailroom/v2 code"),
            id: [i0, i1, i2, i3],
        }
    }
}

/// What an Ed25519 seed stands for.
#[derive(Debug)]
pub struct Private {
    pair: KeyPair,
    id: [u8; 4],
}

impl Private {
    /// Makes the public key.
    pub fn new(seed: [u8; 32]) -> Self {
        let pair = KeyPair::from_seed(Seed::new(seed));
        let [i0, i1, i2, i3, ..] = sha256(&[b"mailroom/v3 key id\0", &pair.pk[..]]);
        Self { pair, id: [i0, i1, i2, i3] }
    }

    /// The 32 bytes that anybody may have.
    pub fn public_key(&self) -> [u8; 32] {
        *self.pair.pk
    }
}

/// The key that signs, which the oracle has of every format: it verifies by signing again.
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    /// Of v1 or v2.
    Shared(&'a Shared),
    /// Of v3.
    Private(&'a Private),
}

/// What a token must say to be good for something.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What the link is about to do.
    pub action: Action,
    /// What the verifier knows.
    pub known: &'a [Action],
    /// The code that was typed.
    pub code: Option<&'a [u8]>,
    /// The value of the visitor's cookie.
    pub nonce: Option<&'a [u8]>,
    /// The verifier's clock.
    pub now: u64,
    /// By how much it may be ahead.
    pub tolerance: u64,
}

/// What a token proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// 1, 2 or 3.
    pub version: u8,
    /// The number of what it is good for.
    pub action: u8,
    /// The row's random bytes.
    pub secret: [u8; 32],
    /// When it ends, where the format says so.
    pub expires_at: Option<u64>,
    /// Whether a code was compared.
    pub code_is_proven: bool,
    /// `same` or `unbound`.
    pub browser: &'static str,
}

/// The fields of a well-formed token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// 1, 2 or 3.
    pub version: u8,
    /// Version, action, key id and expiry, in v2 and v3.
    pub header: Option<Header>,
    /// The row's random bytes.
    pub secret: [u8; 32],
    /// The tag of v1 and v2, the signature of v3.
    pub tag: Vec<u8>,
    /// What a v2 token with a code has behind its tag.
    pub code_tag: Vec<u8>,
}

/// What v2 and v3 say before the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of what the link does.
    pub action: u8,
    /// Names the key.
    pub key_id: [u8; 4],
    /// Seconds since the Unix epoch.
    pub expires_at: u64,
    /// The browser that the link is for.
    pub binding: Option<[u8; 16]>,
}

/// Section "One token, one spelling", apart from which further actions are known: `None` stands for
/// `ERR_TOKEN_MALFORMED`.
pub fn parse(text: &[u8]) -> Option<Fields> {
    let bytes = decode(text)?;
    let (version, header, tag, code_tag) = match text.len() {
        86 => (1, 0, 32, 0),
        104 => (2, 14, 32, 0),
        124 => (2, 14, 32, 15),
        126 => (2, 30, 32, 0),
        146 => (2, 30, 32, 15),
        147 => (3, 14, 64, 0),
        168 => (3, 30, 64, 0),
        _ => return None,
    };
    let (header, rest) = bytes.split_at(header);
    let header = if header.is_empty() { None } else { Some(parse_header(header, version)?) };
    let fits = match (version, header.as_ref().map(|header| header.action)) {
        (2, Some(1)) => code_tag == 0,
        (2, Some(2)) => code_tag > 0,
        _ => true,
    };
    let (secret, rest) = rest.split_at(32);
    let (tag, code_tag) = rest.split_at_checked(tag).filter(|(_, last)| last.len() == code_tag)?;
    fits.then(|| Fields {
        version,
        header,
        secret: secret.try_into().expect("32 bytes were split off"),
        tag: tag.to_vec(),
        code_tag: code_tag.to_vec(),
    })
}

fn parse_header(bytes: &[u8], version: u8) -> Option<Header> {
    let (bytes, binding) = bytes.split_at(14);
    let expires_at = bytes[6..].iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    // The last bit says whether a binding follows.
    let action = if binding.is_empty() { bytes[1] } else { bytes[1].checked_sub(128)? };
    let binding = binding.try_into().ok();
    let key_id = [bytes[2], bytes[3], bytes[4], bytes[5]];
    (bytes[0] == version && action > 0 && action < 128 && expires_at <= 253_402_300_799)
        .then_some(Header { action, key_id, expires_at, binding })
}

/// Section "Order of checks", all steps; the error is its stable code.
pub fn verify(
    text: &[u8],
    keys: &[Key<'_>],
    question: Question<'_>,
) -> Result<Verdict, &'static str> {
    let fields = parse(text).ok_or("ERR_TOKEN_MALFORMED")?;
    let secret = fields.secret;
    if fields.version == 1 {
        let code = match (question.action, question.code) {
            (Action::Activate, None) => None,
            (Action::Activate, Some(_)) => return Err("ERR_CODE_UNCHECKABLE"),
            (Action::Recover, None) => return Err("ERR_CODE_REQUIRED"),
            (Action::Recover, Some(code)) => Some(shaped(code, 5)?),
            (Action::Further(_), _) => return Err("ERR_TOKEN_SIGNATURE"),
        };
        let signed = keys.iter().any(|key| match key {
            Key::Shared(key) => tag_v1(key, question.action, &secret, code) == fields.tag[..],
            Key::Private(_) => false,
        });
        let verdict = Verdict {
            version: 1,
            action: question.action.number(),
            secret,
            expires_at: None,
            code_is_proven: code.is_some(),
            browser: "unbound",
        };
        return if signed { Ok(verdict) } else { Err("ERR_TOKEN_SIGNATURE") };
    }
    let (key, header) = verify_link(&fields, keys, question)?;
    let browser = browser(&header, question.nonce);
    if browser == "other" {
        return Err("ERR_TOKEN_OTHER_BROWSER");
    }
    let verdict = Verdict {
        version: fields.version,
        action: header.action,
        secret,
        expires_at: Some(header.expires_at),
        code_is_proven: question.code.is_some(),
        browser,
    };
    let Key::Shared(key) = key else {
        return if question.code.is_some() { Err("ERR_CODE_UNCHECKABLE") } else { Ok(verdict) };
    };
    match (question.action.digits(), question.code) {
        (0, None) => Ok(verdict),
        (0, Some(_)) => Err("ERR_CODE_UNCHECKABLE"),
        (_, None) => Err("ERR_CODE_REQUIRED"),
        (digits, Some(code)) => {
            let code = shaped(code, digits)?;
            let tag = code_tag_v2(key, &header, &secret, code);
            if tag == fields.code_tag { Ok(verdict) } else { Err("ERR_CODE_MISMATCH") }
        }
    }
}

/// In which browser a link is.
pub fn browser(header: &Header, nonce: Option<&[u8]>) -> &'static str {
    match header.binding {
        None => "unbound",
        Some(binding) if nonce.and_then(binding_of) == Some(binding) => "same",
        Some(_) => "other",
    }
}

/// What the database keeps of a nonce.
pub fn binding_of(nonce: &[u8]) -> Option<[u8; 16]> {
    let is_nonce = decode(nonce).is_some_and(|bytes| bytes.len() == 32);
    is_nonce.then(|| core::array::from_fn(|index| sha256(&[b"mailroom/browser\0", nonce])[index]))
}

/// The steps that judge a link before its code is typed, and the key that signed it.
pub fn verify_link<'k>(
    fields: &Fields,
    keys: &[Key<'k>],
    question: Question<'_>,
) -> Result<(Key<'k>, Header), &'static str> {
    let Some(header) = fields.header.clone() else { return Err("ERR_LINK_UNCHECKABLE") };
    let known = question.known.iter().find(|action| action.number() == header.action);
    match known {
        Some(action)
            if fields.version == 3 || (action.digits() > 0) != fields.code_tag.is_empty() => {}
        _ => return Err("ERR_TOKEN_MALFORMED"),
    }
    let signed = |key: &&Key<'k>| match (fields.version, key) {
        (2, Key::Shared(key)) => {
            key.id == header.key_id && tag_v2(key, &header, &fields.secret) == fields.tag[..]
        }
        (3, Key::Private(key)) => {
            key.id == header.key_id && signature_v3(key, &header, &fields.secret) == fields.tag[..]
        }
        _ => false,
    };
    let key = *keys.iter().find(signed).ok_or("ERR_TOKEN_SIGNATURE")?;
    if header.action != question.action.number() {
        return Err("ERR_TOKEN_ACTION");
    }
    if u128::from(question.now)
        >= u128::from(header.expires_at) + u128::from(question.tolerance.min(999))
    {
        return Err("ERR_TOKEN_EXPIRED");
    }
    Ok((key, header))
}

/// Makes the token of a row for every browser; a v1 activation is made with `version` 1 and so on.
pub fn sign(
    version: u8,
    key: Key<'_>,
    action: Action,
    secret: &[u8; 32],
    expires_at: u64,
    code: &[u8],
) -> Vec<u8> {
    sign_for(version, key, action, secret, expires_at, code, None)
}

/// The same for one browser, if there is a binding; v1 has none.
pub fn sign_for(
    version: u8,
    key: Key<'_>,
    action: Action,
    secret: &[u8; 32],
    expires_at: u64,
    code: &[u8],
    binding: Option<[u8; 16]>,
) -> Vec<u8> {
    let bytes = match (version, key) {
        (1, Key::Shared(key)) => {
            let code = (action == Action::Recover).then_some(code);
            [&secret[..], &tag_v1(key, action, secret, code)].concat()
        }
        (2, Key::Shared(key)) => {
            let header = Header { action: action.number(), key_id: key.id, expires_at, binding };
            let code_tag = if action.digits() == 0 {
                Vec::new()
            } else {
                code_tag_v2(key, &header, secret, code)
            };
            let tag = tag_v2(key, &header, secret);
            [&header_bytes(2, &header)[..], secret, &tag, &code_tag].concat()
        }
        (3, Key::Private(key)) => {
            let header = Header { action: action.number(), key_id: key.id, expires_at, binding };
            [&header_bytes(3, &header)[..], secret, &signature_v3(key, &header, secret)].concat()
        }
        _ => panic!("version {version} has no such key"),
    };
    encode(&bytes)
}

fn shaped(code: &[u8], digits: u8) -> Result<&[u8], &'static str> {
    let is_one = code.len() == usize::from(digits) && code.iter().all(u8::is_ascii_digit);
    if is_one { Ok(code) } else { Err("ERR_CODE_MALFORMED") }
}

fn tag_v1(key: &Shared, action: Action, secret: &[u8], code: Option<&[u8]>) -> [u8; 32] {
    let path: &[u8] = match action {
        Action::Activate => b"/activate",
        Action::Recover => b"/recover",
        Action::Further(_) => panic!("v1 signs no further action"),
    };
    hmac_sha256(&key.key, &[path, secret, code.unwrap_or_default()])
}

fn tag_v2(key: &Shared, header: &Header, secret: &[u8]) -> [u8; 32] {
    hmac_sha256(&key.link, &[&header_bytes(2, header), secret])
}

fn code_tag_v2(key: &Shared, header: &Header, secret: &[u8], code: &[u8]) -> Vec<u8> {
    hmac_sha256(&key.code, &[&header_bytes(2, header), secret, code])[..15].to_vec()
}

/// An honest signer's only signature. Others may exist; accepting one that the signer did not make
/// is a finding.
fn signature_v3(key: &Private, header: &Header, secret: &[u8]) -> [u8; 64] {
    let message = [b"mailroom/v3 link\0", &header_bytes(3, header)[..], secret].concat();
    *key.pair.sk.sign(message, None)
}

fn header_bytes(version: u8, header: &Header) -> Vec<u8> {
    let action = if header.binding.is_some() { header.action + 128 } else { header.action };
    let binding = header.binding.as_ref().map_or(&[][..], |binding| binding);
    [&[version, action], &header.key_id[..], &header.expires_at.to_be_bytes(), binding].concat()
}

/// The HMAC-SHA-256 of the concatenated `parts`.
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// The SHA-256 digest of the concatenated `parts`.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    Sha256::digest(parts.concat()).into()
}

/// Base64url without padding, bit by bit; `None` for anything that [`encode`] would not have made.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bits = Vec::new();
    for character in text {
        let value = ALPHABET.iter().position(|known| known == character)?;
        bits.extend((0..6).rev().map(|bit| value >> bit & 1));
    }
    let (bytes, left) = bits.as_chunks::<8>();
    let wasteful = left.len() >= 6;
    if wasteful || left.contains(&1) {
        return None;
    }
    let byte = |bits: &[usize; 8]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit == 1));
    Some(bytes.iter().map(byte).collect())
}

/// Base64url without padding, bit by bit.
pub fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut bits: Vec<u8> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    bits.resize(bits.len().next_multiple_of(6), 0);
    bits.chunks(6)
        .map(|bits| ALPHABET[usize::from(bits.iter().fold(0, |value, bit| value << 1 | bit))])
        .collect()
}
