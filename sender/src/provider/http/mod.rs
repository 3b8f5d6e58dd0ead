//! A provider that the configuration describes: an HTTP API that takes a mail as JSON.

mod answers;
mod body;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mailroom_mail::{Error, Secret};
use serde::Deserialize;
use serde_json::Value;
use ureq::http::{HeaderName, Method};

use super::Verdict;
use super::api::{self, Answer, Api, Client, Request, Settings};
use crate::mail::Mail;
use crate::rate::Rate;
use answers::{Rule, RuleConfig};
use body::Body;

const NAME: &str = "http";

/// The table `[http]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpConfig {
    /// Where a mail is sent to.
    url: String,
    /// `POST`, `PUT` or `PATCH`.
    #[serde(default = "post")]
    method: String,
    /// The file of the template of a body, in JSON.
    body_file: PathBuf,
    /// Headers of every request that hold no secret.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Headers of every request that hold one.
    #[serde(default)]
    secret_headers: BTreeMap<String, SecretHeader>,
    /// The header that carries what the token is known by.
    idempotency_header: Option<String>,
    /// Where in an answer's JSON the API's own id of a mail is (RFC 6901): `/message/id`.
    id_pointer: Option<String>,
    /// What answers mean; the first rule that fits counts.
    #[serde(default)]
    answers: Vec<RuleConfig>,
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

/// Where the secret of a header is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretHeader {
    /// What stands before the secret: `Bearer `.
    #[serde(default)]
    prefix: String,
    /// The file of the secret, or the variable.
    key_file: Option<PathBuf>,
    key_variable: Option<String>,
}

fn post() -> String {
    "POST".to_owned()
}

impl HttpConfig {
    pub(crate) fn make_paths_relative_to(&mut self, folder: &Path) {
        let keys = self.secret_headers.values_mut().filter_map(|header| header.key_file.as_mut());
        for path in keys.chain(&mut self.ca_file).chain([&mut self.body_file]) {
            *path = folder.join(&*path);
        }
    }
}

pub(super) struct Http {
    body: Body,
    headers: Vec<(String, String)>,
    /// Names, prefixes and secrets.
    secret_headers: Vec<(String, String, Secret)>,
    idempotency_header: Option<String>,
    id_pointer: Option<String>,
    rules: Vec<Rule>,
}

/// The provider of the table.
pub(super) fn of(config: &HttpConfig) -> Result<Client<Http>, Error> {
    let wrong = |what: String| Error::configuration(format!("[http] {what}"));
    let method = match config.method.as_str() {
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        "PATCH" => Method::PATCH,
        _ => return Err(wrong("method must be POST, PUT or PATCH".to_owned())),
    };
    check_headers(config).map_err(wrong)?;
    let mut secret_headers = Vec::new();
    for (name, header) in &config.secret_headers {
        let table = format!("http.secret_headers.{name}");
        let secret = api::key(&table, header.key_file.as_deref(), header.key_variable.as_deref())?;
        secret_headers.push((name.clone(), header.prefix.clone(), secret));
    }
    if config.id_pointer.as_deref().is_some_and(|pointer| !answers::is_pointer(pointer)) {
        return Err(wrong("id_pointer must be like \"/message/id\" (RFC 6901)".to_owned()));
    }
    let rules: Result<_, _> = config.answers.iter().map(Rule::new).collect();
    let http = Http {
        body: Body::read(&config.body_file).map_err(wrong)?,
        headers: config.headers.clone().into_iter().collect(),
        secret_headers,
        idempotency_header: config.idempotency_header.clone(),
        id_pointer: config.id_pointer.clone(),
        rules: rules.map_err(wrong)?,
    };
    let settings = Settings {
        name: NAME,
        url: config.url.clone(),
        ca_file: config.ca_file.as_deref(),
        connections: config.connections,
        timeout_seconds: config.timeout_seconds,
        rate: config.rate,
    };
    Ok(Client::new(settings, http)?.with_method(method))
}

/// Whether the headers can be sent together with those that every request has.
fn check_headers(config: &HttpConfig) -> Result<(), String> {
    let mut seen = Vec::new();
    let names =
        config.headers.keys().chain(config.secret_headers.keys()).chain(&config.idempotency_header);
    for name in names {
        let parsed = HeaderName::from_bytes(name.as_bytes());
        let Ok(parsed) = parsed else {
            return Err(format!("`{}` is no name of a header", name.escape_debug()));
        };
        let of_the_connection = [
            "connection",
            "content-length",
            "expect",
            "host",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ];
        if of_the_connection.contains(&parsed.as_str()) {
            return Err(format!("the header {parsed} belongs to the connection and cannot be set"));
        }
        if seen.contains(&parsed) {
            return Err(format!("the header {parsed} is set twice"));
        }
        seen.push(parsed);
    }
    for name in config.headers.keys().map(|name| name.to_ascii_lowercase()) {
        if ["authorization", "cookie", "secret", "token", "api-key"]
            .iter()
            .any(|part| name.contains(part))
        {
            return Err(format!(
                "the header {name} holds a secret: put it into a file and name that in \
                 [http.secret_headers.{name}]"
            ));
        }
    }
    let prefixes = config.secret_headers.iter().map(|(name, header)| (name, &header.prefix));
    for (name, value) in config.headers.iter().chain(prefixes) {
        if !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err(format!("the value of the header {name} must be one line of ASCII"));
        }
    }
    Ok(())
}

impl Api for Http {
    const REFUSES_EMPTY_MAILS: bool = false;

    fn headers(&self, request: &Request<'_>) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        for (name, prefix, secret) in &self.secret_headers {
            headers.push((name.clone(), format!("{prefix}{}", secret.expose())));
        }
        let key = request.key.map(|key| key.to_string());
        headers.extend(self.idempotency_header.clone().zip(key));
        headers
    }

    fn body(&self, mail: &Mail) -> Result<String, String> {
        self.body.render(mail)
    }

    fn id(&self, answer: &Answer) -> Option<String> {
        match answer.body.pointer(self.id_pointer.as_deref()?)? {
            Value::String(id) => Some(id.clone()),
            Value::Number(id) => Some(id.to_string()),
            _ => None,
        }
    }

    fn judge(&self, answer: &Answer) -> Option<Verdict> {
        answers::judge(&self.rules, answer)
    }
}
