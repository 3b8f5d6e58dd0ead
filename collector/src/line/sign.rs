//! From a token's row to the token that goes into the link.

use mailroom_verifier_core::{
    Binding, Code, Expiry, Grant, Secret, SignedToken, Signer, Unsignable,
};

use crate::queue::Token;

/// Why a row cannot become a mail. It is rejected, and the other rows of its batch go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidRow {
    #[error("its secret has {found} bytes instead of {}", Secret::LENGTH)]
    Secret { found: usize },
    #[error("its code is not of {digits} digits")]
    Code { digits: u8 },
    #[error("its binding has {found} bytes instead of {}", Binding::LENGTH)]
    Binding { found: usize },
    #[error("its action cannot be signed: {0}")]
    Action(Unsignable),
    #[error("its expiry is before 1970 or after the year 9999")]
    Expiry,
    #[error("its {name} contains {contains}")]
    Field { name: &'static str, contains: &'static str },
}

/// Signs a token, unless its mail has no link, or says why its row cannot become a mail.
pub(super) fn sign(signer: &Signer, token: &Token) -> Result<Option<SignedToken>, InvalidRow> {
    if token.action.path().is_empty() {
        return Ok(None);
    }
    let secret = secret(token)?;
    let digits = token.action.digits();
    let code = if digits == 0 {
        None
    } else {
        let code = token.code.as_deref().unwrap_or_default();
        Some(Code::parse(code).map_err(|_| InvalidRow::Code { digits })?)
    };
    let expiry =
        u64::try_from(token.expires_at).ok().and_then(|seconds| Expiry::from_seconds(seconds).ok());
    let expires_at = match (signer.version(), expiry) {
        (_, Some(expiry)) => expiry,
        (version, None) if version.has_header() => return Err(InvalidRow::Expiry),
        // A token without a header does not contain it.
        (_, None) => Expiry::MAX,
    };
    // A binding of the wrong length is an error: a bound link must not be signed for every browser.
    let binding = token.binding.as_deref().map(|bytes| {
        <[u8; Binding::LENGTH]>::try_from(bytes)
            .map_err(|_| InvalidRow::Binding { found: bytes.len() })
    });
    let binding = binding.transpose()?.map(Binding::from);
    let grant = Grant {
        secret: &secret,
        action: token.action,
        code: code.as_ref(),
        expires_at,
        binding: binding.as_ref(),
    };
    signer.sign(grant).map(Some).map_err(|error| match error {
        Unsignable::Code { digits } => InvalidRow::Code { digits },
        error => InvalidRow::Action(error),
    })
}

pub(super) fn secret(token: &Token) -> Result<Secret, InvalidRow> {
    Secret::try_from(token.secret.as_slice())
        .map_err(|error| InvalidRow::Secret { found: error.found })
}

pub(super) fn text<'a>(name: &'static str, bytes: &'a [u8]) -> Result<&'a str, InvalidRow> {
    str::from_utf8(bytes)
        .map_err(|_| InvalidRow::Field { name, contains: "bytes that are not UTF-8" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailroom_verifier_core::{Action, Further, InvalidAction, SharedKey};

    #[test]
    fn what_cannot_be_signed_is_rejected_for_its_own_reason() {
        let further =
            |path, digits| Action::Further(Further { number: 5, name: "sign_in", path, digits });
        let row = |action, code: &str| Token {
            action,
            code: Some(code.into()),
            ..Token::example(1, b"x")
        };
        let bound = |length| Token { binding: Some(vec![5; length]), ..Token::example(1, b"x") };
        let key = SharedKey::from(&[7; 32]);
        let (v1, v2) = (Signer::V1(key.clone()), Signer::V2(key));
        let path = Unsignable::Action(InvalidAction::Path { number: 5 });
        for (signer, row, reason) in [
            (&v1, row(Action::Recover, "0123"), InvalidRow::Code { digits: 5 }),
            (&v2, row(Action::Recover, "012345"), InvalidRow::Code { digits: 5 }),
            (&v2, row(further("/sign-in", 6), "01234"), InvalidRow::Code { digits: 6 }),
            (&v2, row(further("/sign-in", 6), "O12345"), InvalidRow::Code { digits: 6 }),
            (
                &v1,
                row(further("/sign-in", 6), "012345"),
                InvalidRow::Action(Unsignable::FurtherInV1),
            ),
            (&v2, row(further("/a/../b", 0), ""), InvalidRow::Action(path)),
            (&v1, bound(16), InvalidRow::Action(Unsignable::BoundInV1)),
            (&v2, bound(0), InvalidRow::Binding { found: 0 }),
            (&v2, bound(17), InvalidRow::Binding { found: 17 }),
        ] {
            assert_eq!(sign(signer, &row).err(), Some(reason));
        }
        for expires_at in [-1, i64::MIN, 253_402_300_800, i64::MAX] {
            let row = Token { expires_at, ..Token::example(1, b"x") };
            assert_eq!(sign(&v2, &row).err(), Some(InvalidRow::Expiry));
            assert!(sign(&v1, &row).unwrap().is_some(), "v1 carries no expiry");
        }
        assert!(sign(&v2, &row(further("/sign-in", 6), "012345")).unwrap().is_some());
        assert!(sign(&v1, &row(further("", 0), "")).unwrap().is_none());
    }
}
