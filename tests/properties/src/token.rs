//! Any string at all is parsed and judged as [`oracle`] does.

use std::sync::LazyLock;

use mailroom_verifier_core::{
    Binding, Expected, Expiry, KeyRing, Moment, UntrustedToken, VerifiedToken, VerifyError,
    VerifyingKey,
};

use crate::oracle::{self, Fields, Key, Question, Verdict};
use crate::ring::{ACTIONS, KEYS, KNOWN};

/// The clock at which the genuine tokens of the vectors are valid.
const NOW: u64 = 1_800_000_000;

static RING: LazyLock<KeyRing<Vec<VerifyingKey>>> = LazyLock::new(|| {
    let keys = KEYS.iter().map(|key| key.verifying.clone()).collect();
    KeyRing::new(keys).expect("there are keys").knowing(&*ACTIONS)
});

/// Reads a token and, behind a space, the code that was typed beside it, which is taken for the
/// nonce of a browser, too.
pub fn token(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b' ');
    let text = parts.next().unwrap_or_default();
    let typed = parts.next();

    assert_fields_agree(text);
    let keys: Vec<Key<'_>> = KEYS.iter().map(crate::ring::Both::oracle).collect();
    for &action in KNOWN.iter() {
        for (code, nonce) in [(typed, None), (None, typed)] {
            let question = Question { action, known: &KNOWN, code, nonce, now: NOW, tolerance: 0 };
            assert_verdicts_agree(text, &RING, &keys, question);
        }
    }
}

/// One string, one token: what parses says what the oracle reads, and is what its bytes encode to.
fn assert_fields_agree(text: &[u8]) {
    let (parsed, fields) = (UntrustedToken::parse(text), oracle::parse(text));
    let (Ok(parsed), Some(fields)) = (&parsed, &fields) else {
        assert!(fields.is_none(), "refused: {parsed:?}");
        assert_eq!(parsed.map(|_| ()).map_err(VerifyError::reason), Err("ERR_TOKEN_MALFORMED"));
        return;
    };
    let Fields { version, header, secret, tag, .. } = fields;
    assert_eq!(parsed.version().number(), *version);
    assert_eq!(parsed.unauthenticated_secret().as_bytes(), secret);
    assert_eq!(parsed.unauthenticated_tag(), tag);
    let claimed = header.as_ref();
    assert_eq!(parsed.unauthenticated_action(), claimed.map(|header| header.action));
    assert_eq!(parsed.unauthenticated_key_id(), claimed.map(|header| header.key_id));
    let binding = parsed.unauthenticated_binding().map(|binding| *binding.as_bytes());
    assert_eq!(binding, claimed.and_then(|header| header.binding));
    let expiry = parsed.unauthenticated_expiry().map(Expiry::seconds);
    assert_eq!(expiry, claimed.map(|header| header.expires_at));
    let bytes = oracle::decode(text).expect("it was parsed");
    assert_eq!(oracle::encode(&bytes), text);
}

/// Verifier and oracle say the same of a token, and of the link without its code.
pub(crate) fn assert_verdicts_agree(
    text: &[u8],
    ring: &KeyRing<Vec<VerifyingKey>>,
    keys: &[Key<'_>],
    question: Question<'_>,
) {
    let Question { action, code, nonce, now, tolerance, .. } = question;
    let visitor = nonce.and_then(Binding::of_nonce);
    let moment = Moment::at(now).tolerating(tolerance);
    let parsed = UntrustedToken::parse(text);

    let verified = parsed.as_ref().map_err(|error| *error).and_then(|token| {
        let expected = Expected { action, code, binding: visitor.as_ref() };
        token.verify(ring, expected, moment)
    });
    let verdict = oracle::verify(text, keys, question);
    let found = verified.as_ref().map(plain).map_err(|error| error.reason());
    assert_eq!(found, verdict, "{}", String::from_utf8_lossy(text));

    let Ok(token) = &parsed else { return };
    let link = token.verify_link(ring, action, moment);
    let found = link.as_ref().map(|link| {
        let browser = link.browser(visitor.as_ref()).name();
        (link.action().number(), link.expires_at().seconds(), browser)
    });
    let fields = oracle::parse(text).expect("the verifier parsed it");
    let expected = oracle::verify_link(&fields, keys, question);
    let expected = expected
        .map(|(_, header)| (header.action, header.expires_at, oracle::browser(&header, nonce)));
    assert_eq!(
        found.map_err(|error| error.reason()),
        expected,
        "{}",
        String::from_utf8_lossy(text)
    );
}

fn plain(token: &VerifiedToken) -> Verdict {
    let id = oracle::sha256(&[b"mailroom/consumed\0", token.secret().as_bytes()]);
    assert_eq!(token.consumed_id().as_bytes()[..], id[..16]);
    Verdict {
        version: token.version().number(),
        action: token.action().number(),
        secret: *token.secret().as_bytes(),
        expires_at: token.expires_at().map(Expiry::seconds),
        code_is_proven: token.code_is_proven(),
        browser: token.browser().name(),
    }
}
