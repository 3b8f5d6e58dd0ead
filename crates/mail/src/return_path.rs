//! Return addresses that nobody can guess: the sender of the envelope says to whom a mail went,
//! with a proof.
//!
//! Nobody signs a delivery status notification (RFC 3464). What proves one is that it comes to the
//! address that only mails to its recipient carry: `bounces+TAG@example.org`, where the tag is the
//! first 16 bytes of HMAC-SHA256(secret, "mailroom/return-path", a zero byte, the recipient in the
//! form that suppressions have), in hexadecimal. It is the same for all mails to a recipient, whose
//! mail server knows it.

use base16ct::lower;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::address::{Parts, normal_address};
use crate::error::Error;

/// The longest local part (RFC 5321, 4.5.3.1.1), in bytes.
const MAX_LOCAL_PART: usize = 64;

/// Of a tag, in bytes.
const TAG: usize = 16;

const SHORTEST_SECRET: usize = 32;

/// Makes and proves return addresses.
pub struct ReturnPath {
    local: String,
    domain: String,
    key: Hmac<Sha256>,
}

impl ReturnPath {
    /// Of an address such as `bounces@example.org` and a secret of at least 32 bytes.
    ///
    /// # Errors
    /// What is no address in ASCII, or leaves no room for the tag; a secret that is too short.
    pub fn new(address: &str, secret: &str) -> Result<Self, Error> {
        let longest = MAX_LOCAL_PART - 1 - 2 * TAG;
        let parsed = Parts::parse(address).ok().filter(|parts| {
            address.is_ascii()
                && parts.local.len() <= longest
                && parts.quoted_local() == parts.local
        });
        let Parts { local, domain } = parsed.ok_or_else(|| {
            Error::configuration(format!(
                "return_path must be an address in ASCII with at most {longest} bytes before the \
                 @, such as `bounces@example.org`"
            ))
        })?;
        let key = Hmac::new_from_slice(secret.as_bytes())
            .ok()
            .filter(|_| secret.len() >= SHORTEST_SECRET);
        let key = key.ok_or_else(|| {
            Error::configuration(format!(
                "the secret of return_path must have at least {SHORTEST_SECRET} bytes, such as \
                 those of `mailroom keygen`"
            ))
        })?;
        Ok(Self { local, domain, key })
    }

    /// The return address of mails to a recipient.
    pub fn of(&self, recipient: &str) -> String {
        let tag = self.mac(recipient).finalize().into_bytes();
        format!("{}+{}@{}", self.local, lower::encode_string(&tag[..TAG]), self.domain)
    }

    /// Whether an address has the form of a return address. Its content is not proven by that.
    pub fn is_of_form(&self, address: &str) -> bool {
        self.tag(address).is_some()
    }

    /// Whether an address is the return address of mails to a recipient; in constant time.
    pub fn proves(&self, address: &str, recipient: &str) -> bool {
        self.tag(address).is_some_and(|tag| self.mac(recipient).verify_truncated_left(&tag).is_ok())
    }

    /// Mail servers may change the case of letters.
    fn tag(&self, address: &str) -> Option<[u8; TAG]> {
        let (local, domain) = address.rsplit_once('@')?;
        let (local, tag) = local.rsplit_once('+')?;
        let is_ours =
            local.eq_ignore_ascii_case(&self.local) && domain.eq_ignore_ascii_case(&self.domain);
        let mut bytes = [0; TAG];
        let decoded = base16ct::mixed::decode(tag, &mut bytes).ok()?;
        (is_ours && decoded.len() == TAG).then_some(bytes)
    }

    fn mac(&self, recipient: &str) -> Hmac<Sha256> {
        let mac = self.key.clone().chain_update(b"mailroom/return-path\0");
        mac.chain_update(
            normal_address(recipient).unwrap_or_else(|| recipient.to_ascii_lowercase()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_return_address_proves_its_own_recipient_alone() {
        let path = ReturnPath::new("bounces@example.org", SECRET).unwrap();
        let address = path.of("Ada@X.test");
        let (local, domain) = address.split_once('@').unwrap();
        assert!(
            local.len() == 40 && local.starts_with("bounces+") && domain == "example.org",
            "{address}"
        );
        // As computed by the `hmac` of Python.
        assert_eq!(address, "bounces+0864bac4fdf5158c59e62c4f49f76d16@example.org");
        assert!(
            path.proves(&address, "ada@x.test")
                && path.proves(&address.to_uppercase(), "ADA@x.test")
        );
        // As mail servers report addresses that need quotes or are not ASCII.
        for (sent, reported) in
            [("\"a..b\"@x.test", "a..b@X.test"), ("ada@xn--bcher-kva.test", "ada@b\u{fc}cher.test")]
        {
            assert!(path.proves(&path.of(sent), reported), "{reported}");
        }
        let other =
            ReturnPath::new("bounces@example.org", "0123456789abcdef0123456789abcdeF").unwrap();
        for (address, recipient) in [
            (address.as_str(), "bob@x.test"),
            (&other.of("ada@x.test"), "ada@x.test"),
            ("bounces@example.org", "ada@x.test"),
            ("bounces+@example.org", "ada@x.test"),
            (&address.replace("example.org", "example.com"), "ada@x.test"),
            (&address.replace("bounces", "bounce"), "ada@x.test"),
            (&address.replace('@', "0@"), "ada@x.test"),
            (&format!("{}@example.org", &local[..38]), "ada@x.test"),
            ("", ""),
        ] {
            assert!(!path.proves(address, recipient), "{address}");
        }
    }

    #[test]
    fn the_longest_local_part_has_64_bytes() {
        let path = ReturnPath::new(&format!("{}@x.test", "b".repeat(31)), SECRET).unwrap();
        assert_eq!(path.of("ada@x.test").split_once('@').unwrap().0.len(), 64);
        for address in [
            &format!("{}@x.test", "b".repeat(32)),
            "bounces",
            "a b@x.test",
            "b\u{fc}@x.test",
            "<b@x.test>",
            "\"b\"@x.test",
        ] {
            assert!(ReturnPath::new(address, SECRET).is_err(), "{address}");
        }
        assert!(ReturnPath::new("bounces@x.test", &SECRET[1..]).is_err());
    }
}
