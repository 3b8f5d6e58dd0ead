//! The HTTP client of the exporter, with the TLS that this program has anyway.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The longest time that an export takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The largest answer that is read, in bytes.
const MAX_ANSWER: u64 = 65_536;

/// Why the last export failed, in words that hold nothing of an address.
pub(crate) type Fault = Arc<Mutex<String>>;

#[derive(Debug)]
pub(crate) struct Client {
    agent: ureq::Agent,
    fault: Fault,
}

impl Client {
    pub(crate) fn new(fault: Fault) -> Self {
        let found = rustls_native_certs::load_native_certs().certs;
        let certificates: Vec<Certificate<'static>> =
            found.iter().map(|found| Certificate::from_der(found.as_ref()).to_owned()).collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&certificates))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let agent = ureq::Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(PATIENCE))
            .build()
            .new_agent();
        Self { agent, fault }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, body.to_vec());
        let answer = self.agent.run(request).map_err(|error| match error {
            ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
            ureq::Error::Io(error) => error.kind().to_string(),
            ureq::Error::HostNotFound => "its host is not found".to_owned(),
            _ => "it cannot be asked".to_owned(),
        })?;
        let (parts, body) = answer.into_parts();
        if !parts.status.is_success() {
            *self.fault.lock().unwrap_or_else(PoisonError::into_inner) =
                format!("it answered {}", parts.status.as_u16());
        }
        let mut bytes = Vec::new();
        let mut reader = body.into_reader().take(MAX_ANSWER);
        reader.read_to_end(&mut bytes).map_err(|error| error.kind().to_string())?;
        Ok(Response::from_parts(parts, Bytes::from(bytes)))
    }
}

#[async_trait]
impl HttpClient for Client {
    /// Blocks the thread of the exporter, which does nothing else.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.send(request).map_err(|fault| {
            self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&fault);
            fault.into()
        })
    }
}
