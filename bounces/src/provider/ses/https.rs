//! How certificates of SNS are fetched, and subscriptions confirmed.

use std::sync::Arc;
use std::time::Duration;

use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::Error;

/// The largest answer that is read, in bytes. A certificate has two thousand.
const MAX_ANSWER: u64 = 65_536;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Gets what a URL names.
pub(super) trait Fetch: Send + Sync {
    /// The status and the body of the answer, or nothing if there was none. The URL is one of SNS.
    fn get(&self, url: &str) -> Option<(u16, Vec<u8>)>;
}

/// The network, by TLS.
pub(super) struct Https(ureq::Agent);

impl Https {
    pub(super) fn new() -> Result<Self, Error> {
        let found = rustls_native_certs::load_native_certs().certs;
        let roots: Vec<_> =
            found.iter().map(|found| Certificate::from_der(found.as_ref()).to_owned()).collect();
        if roots.is_empty() {
            return Err(Error(
                "[ses] needs certificates of authorities on this machine, and there are none"
                    .to_owned(),
            ));
        }
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let agent = ureq::Agent::config_builder()
            .tls_config(tls.build())
            .https_only(true)
            .http_status_as_error(false)
            // What SNS has is at SNS.
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(REQUEST_TIMEOUT))
            .build()
            .new_agent();
        Ok(Self(agent))
    }
}

impl Fetch for Https {
    fn get(&self, url: &str) -> Option<(u16, Vec<u8>)> {
        let mut response = self.0.get(url).call().ok()?;
        let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().ok()?;
        Some((response.status().as_u16(), body))
    }
}
