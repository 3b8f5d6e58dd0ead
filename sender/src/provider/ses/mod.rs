//! Amazon SES, by `SendEmail` of its API v2. It has no idempotency keys: what is promised is what
//! SMTP can promise.

mod signature;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64ct::{Base64, Encoding};
use mailroom_mail::Error;
use serde::Deserialize;
use serde_json::json;

use super::Verdict;
use super::api::{self, Answer, Api, Client, JSON, Request, Settings};
use super::refusal;
use crate::mail::Mail;
use crate::message;
use crate::rate::Rate;
use signature::{Credentials, Signed};

const NAME: &str = "ses";

/// The table `[ses]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SesConfig {
    /// The region: `eu-central-1`.
    region: String,
    /// The id of the access key, which is no secret.
    key_id: String,
    /// The file of the secret access key, or the variable.
    key_file: Option<PathBuf>,
    key_variable: Option<String>,
    /// The file of the session token, or the variable; only temporary credentials have one.
    session_token_file: Option<PathBuf>,
    session_token_variable: Option<String>,
    /// The configuration set, by whose rules SES reports what becomes of mails.
    configuration_set: Option<String>,
    /// Where the API is; the region's own place unless given.
    url: Option<String>,
    /// A file of certificates that are trusted instead of the system's.
    ca_file: Option<PathBuf>,
    /// How many mails it gets in a time; no limit unless given.
    rate: Option<Rate>,
    /// Requests at a time, 1 to 64.
    #[serde(default = "api::two")]
    connections: usize,
    /// The time that a request may take, in seconds, 1 to 300.
    #[serde(default = "api::twenty")]
    timeout_seconds: u64,
}

impl SesConfig {
    pub(crate) fn make_paths_relative_to(&mut self, folder: &Path) {
        for path in [&mut self.ca_file, &mut self.key_file, &mut self.session_token_file]
            .into_iter()
            .flatten()
        {
            *path = folder.join(&*path);
        }
    }
}

pub(super) struct Ses {
    credentials: Credentials,
    region: String,
    configuration_set: Option<String>,
}

/// The provider of the table.
pub(super) fn of(config: &SesConfig) -> Result<Client<Ses>, Error> {
    let is_name = |text: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=128).contains(&text.len()) && text.bytes().all(is_plain)
    };
    let set = config.configuration_set.as_deref();
    for (name, value) in [
        ("region", Some(&*config.region)),
        ("key_id", Some(&*config.key_id)),
        ("configuration_set", set),
    ] {
        if !value.is_none_or(is_name) {
            return Err(Error::configuration(format!(
                "[ses] {name} must consist of 1 to 128 letters, digits, hyphens and underscores"
            )));
        }
    }
    let host = format!("https://{}", host(&config.region));
    let settings = Settings {
        name: NAME,
        url: format!(
            "{}/v2/email/outbound-emails",
            config.url.as_deref().unwrap_or(&host).trim_end_matches('/')
        ),
        ca_file: config.ca_file.as_deref(),
        connections: config.connections,
        timeout_seconds: config.timeout_seconds,
        rate: config.rate,
    };
    let secret = api::key(NAME, config.key_file.as_deref(), config.key_variable.as_deref())?;
    let token =
        match (config.session_token_file.as_deref(), config.session_token_variable.as_deref()) {
            (None, None) => None,
            (file, variable) => Some(api::in_header("[ses] session_token", file, variable)?),
        };
    let ses = Ses {
        credentials: Credentials { id: config.key_id.clone(), secret, token },
        region: config.region.clone(),
        configuration_set: config.configuration_set.clone(),
    };
    Client::new(settings, ses)
}

/// Where the API of a region is: two partitions have a domain of their own.
fn host(region: &str) -> String {
    let domain = match region.split_once('-') {
        Some(("cn", _)) => "amazonaws.com.cn",
        Some(("eusc", _)) => "amazonaws.eu",
        _ => "amazonaws.com",
    };
    format!("email.{region}.{domain}")
}

impl Api for Ses {
    fn headers(&self, request: &Request<'_>) -> Vec<(String, String)> {
        let signed = Signed {
            method: "POST",
            host: request.host,
            path: request.path,
            content_type: Some(JSON),
            body: request.body.as_bytes(),
        };
        let (date, authorization) =
            self.credentials.sign(&signed, &self.region, "ses", SystemTime::now());
        let token = self.credentials.token.as_ref();
        [("Content-Type", JSON.to_owned()), ("X-Amz-Date", date), ("Authorization", authorization)]
            .into_iter()
            .chain(token.map(|token| ("X-Amz-Security-Token", token.expose().to_owned())))
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// The whole mail as MIME, so that it is the one that a mail server would get. Message-ID and
    /// Date are those that SES gives it.
    fn body(&self, mail: &Mail) -> Result<String, String> {
        let mut body = json!({
            "Destination": {"ToAddresses": [mail.to.address().to_string()]},
            "Content": {"Raw": {"Data": Base64::encode_string(message::encode(mail).as_bytes())}},
        });
        if let Some(set) = &self.configuration_set {
            body["ConfigurationSetName"] = json!(set);
        }
        Ok(body.to_string())
    }

    fn id(&self, answer: &Answer) -> Option<String> {
        answer.body["MessageId"].as_str().map(str::to_owned)
    }

    fn judge(&self, answer: &Answer) -> Option<Verdict> {
        // `NAME`, `NAME:http://…` or `namespace#NAME`, in the header or in the body.
        let kind = answer
            .header("x-amzn-ErrorType")
            .or_else(|| answer.body["__type"].as_str())
            .unwrap_or_default();
        let kind =
            kind.split(':').next().unwrap_or_default().rsplit('#').next().unwrap_or_default();
        let is_name = kind.len() <= 100 && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let kind = if is_name { kind } else { "" };
        if matches!(answer.status, 200..300) && !answer.body["MessageId"].is_string() {
            return Some(api::unproven(answer));
        }
        if answer.status != 400 {
            return Some(api::by_status(answer, kind));
        }
        let text = answer.body["message"].as_str().or_else(|| answer.body["Message"].as_str());
        let text = text.unwrap_or_default();
        let is_unverified = kind == "MessageRejected" && text.contains("not verified");
        let words = if is_unverified {
            format!("{kind}: an address is not verified")
        } else {
            kind.to_owned()
        };
        Some(answer.refused(refusal::table::SES, kind, text, &words))
    }
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn a_region_is_asked_in_the_domain_of_its_partition() {
        for (region, expected) in [
            ("eu-central-1", "email.eu-central-1.amazonaws.com"),
            ("us-gov-west-1", "email.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "email.cn-north-1.amazonaws.com.cn"),
            ("cn-northwest-1", "email.cn-northwest-1.amazonaws.com.cn"),
            ("eusc-de-east-1", "email.eusc-de-east-1.amazonaws.eu"),
        ] {
            assert_eq!(host(region), expected);
        }
    }
}
