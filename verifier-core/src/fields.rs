//! The fields of a token of any format: a header (v2, v3), the browser that it is bound to (v2,
//! v3), the secret, and the tags or the signature.

use crate::{
    action::Action, actions::KnownActions, base64, binding::Binding, bytes::field,
    error::Malformed, header::Header, secret::Secret, v1, v2, v3, version::Version,
};

/// Enough for what follows the secret in any format.
const PROOF: usize = 64;
const TAG: usize = 32;
/// The bytes of the longest token.
const LONGEST: usize = SECRET + Secret::LENGTH + PROOF;
/// Where the secret begins in the longest token.
const SECRET: usize = Header::LENGTH + Binding::LENGTH;
/// Where a header begins that ends there.
const UNBOUND: usize = SECRET - Header::LENGTH;

/// The fields of a well-formed token. Nothing about them is proven.
#[derive(Clone)]
pub(crate) struct Fields {
    pub(crate) header: VersionedHeader,
    pub(crate) secret: Secret,
    /// The tag (v1), the tags of link and code (v2) or the signature (v3), and zeros.
    proof: [u8; PROOF],
    /// Whether the tag of a code is part of the proof (v2).
    has_code_tag: bool,
}

/// The version, and what a token of it says before its secret.
#[derive(Clone, Copy)]
pub(crate) enum VersionedHeader {
    V1,
    V2(Header),
    V3(Header),
}

impl Fields {
    pub(crate) fn parse(token: &[u8]) -> Result<Self, Malformed> {
        const BOUND: usize = Binding::LENGTH;
        let (version, length, is_bound) = match token.len() {
            v1::CHARACTERS => (Version::V1, v1::BYTES, false),
            v2::CHARACTERS => (Version::V2, v2::BYTES, false),
            v2::CHARACTERS_WITH_CODE => (Version::V2, v2::BYTES_WITH_CODE, false),
            v3::CHARACTERS => (Version::V3, v3::BYTES, false),
            v2::BOUND_CHARACTERS => (Version::V2, v2::BYTES + BOUND, true),
            v2::BOUND_CHARACTERS_WITH_CODE => (Version::V2, v2::BYTES_WITH_CODE + BOUND, true),
            v3::BOUND_CHARACTERS => (Version::V3, v3::BYTES + BOUND, true),
            found => return Err(Malformed::Length { found }),
        };
        // One buffer for every format: a generic function would be compiled once per format. Each
        // ends its header, if it has one, where the secret of all begins, so that the compiler
        // knows the places of most fields.
        let mut bytes = [0; LONGEST];
        let start = match (version.has_header(), is_bound) {
            (false, _) => SECRET,
            (true, false) => UNBOUND,
            (true, true) => 0,
        };
        if !bytes.get_mut(start..start + length).is_some_and(|bytes| base64::fill(bytes, token)) {
            return Err(Malformed::Encoding);
        }
        let has_code_tag =
            matches!(token.len(), v2::CHARACTERS_WITH_CODE | v2::BOUND_CHARACTERS_WITH_CODE);
        let header = if version.has_header() {
            let binding = is_bound.then(|| Binding::from(field(&bytes, Header::LENGTH)));
            let first = if is_bound { field(&bytes, 0) } else { field(&bytes, UNBOUND) };
            let header = Header::parse(&first, version, binding)?;
            // What every verifier knows; of a further action only its ring does.
            let fits = match Action::from_number(header.action) {
                Some(action) => !version.has_code_tag() || has_code_tag == (action.digits() > 0),
                None => true,
            };
            if !fits {
                return Err(Malformed::Action { found: header.action });
            }
            // A new version is an error of the compiler here. Its lengths are in the table above.
            match version {
                Version::V1 => VersionedHeader::V1,
                Version::V2 => VersionedHeader::V2(header),
                Version::V3 => VersionedHeader::V3(header),
            }
        } else {
            VersionedHeader::V1
        };
        let secret = Secret::from(field(&bytes, SECRET));
        Ok(Self { header, secret, proof: field(&bytes, SECRET + Secret::LENGTH), has_code_tag })
    }

    /// The tag of v1, or of a v2 link.
    pub(crate) fn tag(&self) -> [u8; TAG] {
        field(&self.proof, 0)
    }

    /// The tag of a v2 code.
    pub(crate) fn code_tag(&self) -> [u8; v2::CODE_TAG] {
        field(&self.proof, TAG)
    }

    /// Whether a verifier that `known` belongs to has the action of this header, with a code if
    /// there is the tag of one (v2). Returns the number of digits of the code.
    pub(crate) fn digits(&self, header: &Header, known: &KnownActions) -> Result<u8, Malformed> {
        let digits = known.digits(header.action);
        let is_v2 = matches!(self.header, VersionedHeader::V2(_));
        digits
            .filter(|digits| !is_v2 || self.has_code_tag == (*digits > 0))
            .ok_or(Malformed::Action { found: header.action })
    }

    /// What follows the secret: the signature in v3, and otherwise the tag first.
    pub(crate) const fn proof(&self) -> &[u8; PROOF] {
        &self.proof
    }
}
