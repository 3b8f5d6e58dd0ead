//! The link of a mail: the base of its action, its path and its token.

use std::collections::BTreeMap;

use mailroom_mail::Error;
use serde::Deserialize;

/// Where links lead.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinksConfig {
    /// What comes before the path of a link: `https://example.org`.
    pub(crate) base: String,
    /// Bases of actions that have their own.
    #[serde(default)]
    pub(crate) actions: BTreeMap<String, String>,
    /// Where the token is in a link.
    #[serde(default)]
    pub(crate) token: TokenPlace,
}

/// Where the token is in a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TokenPlace {
    /// `?token=…`, which the server sees.
    #[default]
    Query,
    /// `#token=…`, which only scripts of the page see.
    Fragment,
}

/// Follows a token whose last sign could get lost. No reader of links asks for it.
const END: &str = "&from=mail";

/// Makes links.
#[derive(Debug)]
pub(crate) struct Links {
    base: String,
    actions: BTreeMap<String, String>,
    token: TokenPlace,
}

impl Links {
    pub(crate) fn new(config: &LinksConfig) -> Result<Self, Error> {
        let actions =
            config.actions.iter().map(|(action, base)| Ok((action.clone(), self::base(base)?)));
        Ok(Self {
            base: base(&config.base)?,
            actions: actions.collect::<Result<_, Error>>()?,
            token: config.token,
        })
    }

    /// The link of a token; `None` if path or token have characters
    /// that would change what the link means.
    pub(crate) fn link(&self, action: &str, path: &str, token: &str) -> Option<String> {
        let is_unreserved =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
        let is_path =
            path.starts_with('/') && path.bytes().all(|byte| byte == b'/' || is_unreserved(byte));
        if !is_path || token.is_empty() || !token.bytes().all(is_unreserved) {
            return None;
        }
        let base = self.actions.get(action).unwrap_or(&self.base);
        let mark = match self.token {
            TokenPlace::Query => '?',
            TokenPlace::Fragment => '#',
        };
        // Many mail programs leave these signs out where they end an address in a text.
        let end = if token.ends_with(['-', '_', '.', '~']) { END } else { "" };
        Some(format!("{base}{path}{mark}token={token}{end}"))
    }
}

/// Checks the beginning of links; a slash at its end is left out, because paths begin with one.
fn base(text: &str) -> Result<String, Error> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_base = rest.is_some_and(|rest| {
        !rest.starts_with('/')
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/[]%".contains(&byte))
            && !rest.is_empty()
    });
    if is_base {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err(Error::configuration(
            "a base of links must begin with https:// or http://, be ASCII and have no user, \
             query or fragment",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64ct::{Base64UrlUnpadded, Encoding as _};

    fn links(token: TokenPlace) -> Links {
        let actions =
            [("recover".to_owned(), "https://accounts.example.org:8443/de/".to_owned())].into();
        Links::new(&LinksConfig { base: "https://example.org/".to_owned(), actions, token })
            .unwrap()
    }

    #[test]
    fn a_link_is_the_base_of_its_action_the_path_and_the_token() {
        let query = links(TokenPlace::Query);
        assert_eq!(
            query.link("activate", "/activate", "a-_1").unwrap(),
            "https://example.org/activate?token=a-_1"
        );
        assert_eq!(
            query.link("recover", "/recover", "t").unwrap(),
            "https://accounts.example.org:8443/de/recover?token=t"
        );
        let fragment = links(TokenPlace::Fragment);
        assert_eq!(
            fragment.link("activate", "/activate", "t").unwrap(),
            "https://example.org/activate#token=t"
        );
    }

    #[test]
    fn no_link_ends_in_a_sign_that_mail_programs_leave_out() {
        for place in [TokenPlace::Query, TokenPlace::Fragment] {
            for (token, end) in
                [("a-b_c", "c"), ("abc-", "abc-&from=mail"), ("abc_", "abc_&from=mail")]
            {
                let link = links(place).link("activate", "/activate", token).unwrap();
                assert!(link.contains(&format!("token={token}")) && link.ends_with(end), "{link}");
            }
            // Tokens of v2 have this length.
            for number in 0_u32..3_000 {
                let bytes: Vec<_> = (0..26)
                    .flat_map(|at| number.wrapping_mul(2_654_435_761 + at).to_le_bytes())
                    .collect();
                let token = Base64UrlUnpadded::encode_string(&bytes[..78]);
                let link = links(place).link("activate", "/activate", &token).unwrap();
                assert!(
                    token.len() == 104 && link.ends_with(|last: char| last.is_ascii_alphanumeric()),
                    "{link}"
                );
            }
        }
    }

    #[test]
    fn nothing_in_a_path_or_a_token_changes_where_the_link_leads() {
        for (path, token) in [
            ("activate", "t"),
            ("@evil.test/", "t"),
            ("/a?b=", "t"),
            ("/a#", "t"),
            ("/a b", "t"),
            ("/a\n", "t"),
            ("/a", ""),
            ("/a", "t&u=1"),
            ("/a", "t\"><script>"),
            ("/a", "t\u{202e}"),
        ] {
            assert_eq!(
                links(TokenPlace::Query).link("activate", path, token),
                None,
                "{path} {token}"
            );
        }
    }

    #[test]
    fn a_base_that_is_no_plain_address_of_a_site_is_refused() {
        for text in [
            "",
            "example.org",
            "https://",
            "https:///x",
            "javascript:alert(1)",
            "https://a@b",
            "https://x?y",
            "https://x#y",
            "https://x y",
            "https://ü.test",
        ] {
            assert!(base(text).is_err(), "{text}");
        }
    }
}
