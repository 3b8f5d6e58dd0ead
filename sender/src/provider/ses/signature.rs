//! Signature Version 4 of AWS, for requests without a query.

use std::time::SystemTime;

use hmac::{Hmac, KeyInit, Mac};
use mailroom_mail::Secret;
use sha2::{Digest, Sha256};

/// Who signs.
pub(super) struct Credentials {
    /// The id of the access key.
    pub(super) id: String,
    /// The secret access key.
    pub(super) secret: Secret,
    /// The session token of temporary credentials, which is sent in `X-Amz-Security-Token`.
    pub(super) token: Option<Secret>,
}

/// What is signed of a request.
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    /// The path, of characters that mean themselves in one.
    pub(super) path: &'a str,
    pub(super) content_type: Option<&'a str>,
    pub(super) body: &'a [u8],
}

impl Credentials {
    /// The headers `X-Amz-Date` and `Authorization`.
    pub(super) fn sign(
        &self,
        request: &Signed<'_>,
        region: &str,
        service: &str,
        now: SystemTime,
    ) -> (String, String) {
        let now = timestamp(now);
        let day = &now[..8];
        let Signed { method, host, path, content_type, body } = request;
        let token = self.token.as_ref().map(Secret::expose);
        // In the order of their names.
        let headers = [
            ("content-type", *content_type),
            ("host", Some(host)),
            ("x-amz-date", Some(&now)),
            ("x-amz-security-token", token),
        ];
        let headers: Vec<_> =
            headers.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines = headers
            .iter()
            .map(|(name, value)| format!("{name}:{value}\n"))
            .collect::<Vec<_>>()
            .concat();
        let canonical = format!("{method}\n{path}\n\n{lines}\n{names}\n{}", hash(body));
        let scope = format!("{day}/{region}/{service}/aws4_request");
        let to_sign = format!("AWS4-HMAC-SHA256\n{now}\n{scope}\n{}", hash(canonical.as_bytes()));
        let mut key = hmac(format!("AWS4{}", self.secret.expose()).as_bytes(), day);
        for part in [region, service, "aws4_request"] {
            key = hmac(&key, part);
        }
        let signature = base16ct::lower::encode_string(&hmac(&key, &to_sign));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.id
        );
        (now, authorization)
    }
}

fn hash(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(&Sha256::digest(bytes))
}

fn hmac(key: &[u8], text: &str) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}

/// `20150830T123600Z`.
fn timestamp(time: SystemTime) -> String {
    let date = httpdate::HttpDate::from(time).to_string();
    // `Sun, 30 Aug 2015 12:36:00 GMT`
    let words: Vec<&str> = date.split([' ', ':']).collect();
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|month| *month == words[2]).unwrap_or_default() + 1;
    format!("{}{month:02}{}T{}{}{}Z", words[3], words[1], words[4], words[5], words[6])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn secret(text: &str) -> Secret {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, text).unwrap();
        Secret::read("key", Some(&file), None).unwrap()
    }

    fn credentials(token: Option<&str>) -> Credentials {
        let secret = secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        Credentials { id: "AKIDEXAMPLE".to_owned(), secret, token: token.map(self::secret) }
    }

    fn at() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_440_938_160)
    }

    /// `get-vanilla`, `post-vanilla` and `post-x-www-form-urlencoded` of the test suite that AWS
    /// publishes.
    #[test]
    fn signatures_are_those_that_aws_publishes() {
        let form = Some("application/x-www-form-urlencoded");
        for (method, content_type, body, names, signature) in [
            (
                "GET",
                None,
                "",
                "host;x-amz-date",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "POST",
                None,
                "",
                "host;x-amz-date",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "POST",
                form,
                "Param1=value1",
                "content-type;host;x-amz-date",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ] {
            let request = Signed {
                method,
                host: "example.amazonaws.com",
                path: "/",
                content_type,
                body: body.as_bytes(),
            };
            let (date, authorization) =
                credentials(None).sign(&request, "us-east-1", "service", at());
            assert_eq!(date, "20150830T123600Z");
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders={names}, Signature={signature}"
            );
            assert_eq!(authorization, expected);
        }
    }

    /// A request as this program makes it, signed by botocore 1.44.5.
    #[test]
    fn a_request_to_ses_has_the_signature_that_the_sdk_of_aws_makes() {
        let request = Signed {
            method: "POST",
            host: "email.eu-central-1.amazonaws.com",
            path: "/v2/email/outbound-emails",
            content_type: Some("application/json"),
            body: b"{\"Content\":{}}",
        };
        let names = "SignedHeaders=content-type;host;x-amz-date";
        for (token, expected) in [
            (
                None,
                format!(
                    "{names}, \
                     Signature=5fd12a4e6c5a48359eb19fe9842eef5732ea457ea43b2ffb37a8d7427e5ebed0"
                ),
            ),
            (
                Some("AQoDYXdzEPT//////////wEXAMPLE+tc764bNrC9SA=="),
                format!(
                    "{names};x-amz-security-token, \
                     Signature=86f1b3ab83073cc61e17a3b6bd2af19d1ebcb728f7e5c6d8aa5a96dbc319f448"
                ),
            ),
        ] {
            let (_, authorization) = credentials(token).sign(&request, "eu-central-1", "ses", at());
            assert!(authorization.ends_with(&expected), "{authorization}");
        }
    }

    #[test]
    fn the_time_is_one_of_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (1_709_164_800, "20240229T000000Z"),
            (1_798_761_599, "20261231T235959Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
