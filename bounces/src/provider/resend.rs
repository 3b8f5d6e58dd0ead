//! Resend: webhooks of Svix, signed with a secret that both sides know.
//!
//! <https://docs.svix.com/receiving/verifying-payloads/how-manual>,
//! <https://resend.com/docs/webhooks/event-types>

use std::borrow::Cow;

use base64ct::{Base64, Encoding as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use mailroom_mail::diagnosis::{self, Said, Step};
use serde::Deserialize;
use sha2::Sha256;

use super::{Object, Provider, Request, parse};
use crate::Error;
use crate::notice::{Notice, Reason, Refusal};

/// How far the time of a signature may be from now, in seconds: an old notification is not sent
/// again by somebody else.
const TOLERANCE: u64 = 300;

/// The most signatures that are looked at. There are two while a secret is changed.
const MAX_SIGNATURES: usize = 8;

/// Resend.
pub(crate) struct Resend {
    key: Hmac<Sha256>,
}

impl Resend {
    /// # Errors
    /// A secret that is not `whsec_` and base64 of at least 16 bytes.
    pub(crate) fn new(secret: &str) -> Result<Self, Error> {
        let key = secret.strip_prefix("whsec_").and_then(|text| Base64::decode_vec(text).ok());
        let key = key.filter(|key| key.len() >= 16).and_then(|key| Hmac::new_from_slice(&key).ok());
        let fault =
            "[resend] secret_file must hold the webhook's signing secret: whsec_ and base64";
        key.map(|key| Self { key }).ok_or_else(|| Error(fault.to_owned()))
    }

    fn prove(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let header = |name, missing| request.header(name).ok_or(Refusal::Unproven(missing));
        let id = header("svix-id", "the header svix-id is missing")?;
        let time = header("svix-timestamp", "the header svix-timestamp is missing")?;
        let signatures = header("svix-signature", "the header svix-signature is missing")?;
        let signed = self
            .key
            .clone()
            .chain_update(id)
            .chain_update(".")
            .chain_update(time)
            .chain_update(".");
        let signed = signed.chain_update(request.body);
        let mut signatures =
            signatures.split(' ').filter_map(|text| text.strip_prefix("v1,")).take(MAX_SIGNATURES);
        let is_proven = signatures.any(|text| {
            // In constant time.
            Base64::decode_vec(text)
                .is_ok_and(|signature| signed.clone().verify_slice(&signature).is_ok())
        });
        if !is_proven {
            return Err(Refusal::Unproven("none of its signatures is right"));
        }
        let seconds: Option<u64> =
            time.parse().ok().filter(|_| time.bytes().all(|byte| byte.is_ascii_digit()));
        match seconds {
            Some(seconds) if seconds.abs_diff(request.now) <= TOLERANCE => Ok(()),
            _ => Err(Refusal::Unproven(
                "it was signed more than five minutes ago, or the clock is wrong",
            )),
        }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    // JSON may write any letter as an escape.
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

/// An event that is about a mail; others have other data.
#[derive(Deserialize)]
struct OfMail {
    data: Object<Email>,
}

#[derive(Deserialize)]
struct Email {
    to: Vec<String>,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    bounce: Option<Object<Bounce>>,
}

/// A list of texts, or a text alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    All(Vec<String>),
}

impl Texts {
    fn all(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::All(texts) => texts,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Bounce {
    #[serde(rename = "type")]
    kind: String,
    sub_type: Option<String>,
    message: Option<String>,
    /// What the mail servers of the recipients answered.
    diagnostic_code: Option<Texts>,
}

impl Bounce {
    /// Whether the recipient is gone. Resend calls unknown users also `Transient` or
    /// `Undetermined`; then what the next server said counts.
    fn is_gone(&self, answer: &str, recipient: &str, sender: &str) -> bool {
        let said = Said { status: "", answer, recipient, sender, step: Step::Recipient };
        match self.kind.as_str() {
            "Permanent" => answer.is_empty() || !diagnosis::speaks_against(&said),
            "Transient" if self.sub_type.as_deref() == Some("General") => diagnosis::is_gone(&said),
            "Undetermined" => diagnosis::is_gone(&said),
            _ => false,
        }
    }
}

impl Provider for Resend {
    fn name(&self) -> &'static str {
        "resend"
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Notice>, Refusal> {
        self.prove(request)?;
        notices(request.body)
    }
}

/// What a notification says, whoever sent it.
pub(crate) fn notices(body: &[u8]) -> Result<Vec<Notice>, Refusal> {
    let event: Event<'_> = parse(body)?;
    let reason = match &*event.kind {
        "email.bounced" => Reason::Bounce,
        "email.complained" => Reason::Complaint,
        _ => return Ok(Vec::new()),
    };
    let OfMail { data: Object(Email { to, from, bounce }) } = parse(body)?;
    let Object(mut bounce) = bounce.unwrap_or_default();
    // Mails of Mailroom have one recipient; of several it is not said whom this is about.
    if to.len() > 1 {
        return Ok(Vec::new());
    }
    let answer =
        bounce.diagnostic_code.take().map(|texts| texts.all().join(" ")).unwrap_or_default();
    let address = to.first().map(String::as_str).unwrap_or_default();
    if reason == Reason::Bounce
        && !bounce.is_gone(&answer, address, from.as_deref().unwrap_or_default())
    {
        return Ok(Vec::new());
    }
    let said = [Some(bounce.kind), bounce.sub_type, bounce.message].map(Option::unwrap_or_default);
    Notice::all(to.iter().map(String::as_str), reason, &said.each_ref().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::HeaderMap;

    // The documented example of Svix.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIME: &str = "1614265330";
    const NOW: u64 = 1_614_265_330;
    const BODY: &str = "{\"test\": 2432232314}";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn prove(headers: &[(&'static str, &str)], body: &str, now: u64) -> Result<(), Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        Resend::new(SECRET).unwrap().prove(&Request { headers: &map, body: body.as_bytes(), now })
    }

    fn signed(signature: &str) -> [(&'static str, &str); 3] {
        [("svix-id", ID), ("svix-timestamp", TIME), ("svix-signature", signature)]
    }

    #[test]
    fn the_documented_signature_is_right_for_five_minutes_and_beside_others() {
        let others = format!(
            "v1a,{SIGNATURE} v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OF= \
             v2,x {SIGNATURE}"
        );
        for signature in [SIGNATURE, &others] {
            for now in [NOW, NOW - 300, NOW + 300] {
                assert_eq!(prove(&signed(signature), BODY, now), Ok(()));
            }
        }
    }

    #[test]
    fn what_is_not_signed_now_by_this_secret_is_refused() {
        for now in [NOW - 301, NOW + 301, 0, u64::MAX] {
            assert!(
                matches!(prove(&signed(SIGNATURE), BODY, now), Err(Refusal::Unproven(_))),
                "{now}"
            );
        }
        let unversioned = SIGNATURE.trim_start_matches("v1,");
        let ninth = format!("{}{SIGNATURE}", "v1,AAAA ".repeat(8));
        for signature in [
            "",
            "v1,",
            "v1",
            unversioned,
            &SIGNATURE.replace("v1", "v2"),
            &SIGNATURE.replace('g', "h"),
            &ninth,
        ] {
            assert!(prove(&signed(signature), BODY, NOW).is_err(), "{signature}");
        }
        assert!(prove(&signed(SIGNATURE), "{\"test\": 2432232315}", NOW).is_err());
        let [id, time, signature] = signed(SIGNATURE);
        for headers in [
            vec![id, time],
            vec![id, signature],
            vec![time, signature],
            vec![("svix-id", "msg"), time, signature],
            vec![id, ("svix-timestamp", "1614265331"), signature],
            vec![id, ("svix-timestamp", "+1614265330"), signature],
            // Which of two counts would be a matter of taste.
            vec![id, time, signature, signature],
            vec![id, id, time, signature],
        ] {
            assert!(matches!(prove(&headers, BODY, NOW), Err(Refusal::Unproven(_))), "{headers:?}");
        }
    }

    #[test]
    fn notifications_are_read_in_every_shape_of_json() {
        let found = |body: &str| {
            let notices =
                notices(body.as_bytes()).unwrap_or_else(|refusal| panic!("{refusal:?}: {body}"));
            notices.into_iter().map(|mut notice| notice.addresses.remove(0)).collect::<Vec<_>>()
        };
        let bounced = |to: &str, bounce: &str| {
            format!(r#"{{"type":"email\u002ebounced","data":{{"to":{to},"bounce":{bounce}}}}}"#)
        };
        let gone = r#""diagnosticCode":["smtp; 550 5.1.1 <ada@x.test>: user unknown"]"#;
        let full = r#""diagnosticCode":"smtp; 552 5.2.2 mailbox full""#;
        let to = r#"["ada@x.test"]"#;
        for body in [
            bounced(to, r#"{"type":"Permanent","subType":"General","message":"no such user"}"#),
            bounced(to, r#"{"type":"Perm\u0061nent"}"#),
            bounced(r#"["Ada L. <ada@x.test>"]"#, &format!(r#"{{"type":"Permanent",{gone}}}"#)),
            bounced(to, &format!(r#"{{"type":"Transient","subType":"General",{gone}}}"#)),
            bounced(to, &format!(r#"{{"type":"Undetermined","subType":"Undetermined",{gone}}}"#)),
            r#"{"data":{"to":["ada@x.test"],"bounce":null},"type":"email.complained"}"#.to_owned(),
        ] {
            assert_eq!(found(&body), ["ada@x.test"], "{body}");
        }
        for body in [
            bounced(to, r#"{"type":"Transient","subType":"General","message":"no such user"}"#),
            bounced(to, &format!(r#"{{"type":"Transient","subType":"MailboxFull",{gone}}}"#)),
            bounced(to, &format!(r#"{{"type":"Undetermined",{full}}}"#)),
            bounced(to, &format!(r#"{{"type":"Permanent",{full}}}"#)),
            bounced(to, r#"{"type":"Permanent","diagnosticCode":"smtp; 550 5.7.1 blocked"}"#),
            bounced(to, "null"),
            bounced(r#"["ada@x.test","bob@x.test"]"#, r#"{"type":"Permanent"}"#),
        ] {
            assert_eq!(found(&body), [""; 0], "{body}");
        }
    }
}
