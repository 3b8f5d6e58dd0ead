//! TLS of a listener, by a certificate and its key in files, which are read again when they were
//! renewed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mailroom_http::Listen;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::Error;

/// The files, and what was read from them last.
#[derive(Clone)]
pub(crate) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: Arc<Mutex<Arc<ServerConfig>>>,
}

impl Tls {
    /// # Errors
    /// A file that cannot be read; a key that is not the certificate's.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let config = Arc::new(Mutex::new(config(certificate, key)?));
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), config })
    }

    /// Reads them again; what was read before stays if that fails.
    pub(crate) fn reload(&self) -> Result<(), Error> {
        let config = config(&self.certificate, &self.key)?;
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.config.lock().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Error> {
    let unusable = |path: &Path, why: &dyn std::fmt::Display| {
        Error(format!("{} cannot be used: {why}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(certificate, &error))?;
    if chain.is_empty() {
        return Err(unusable(certificate, &"it has no certificate"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(certificate, &error))?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| unusable(certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A listener whose connections begin with a handshake.
pub(crate) struct TlsListener {
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Tls,
}

impl Listen for TlsListener {
    type Stream = TlsStream<TcpStream>;
    type Opening = Accept<TcpStream>;

    async fn accept(&self) -> io::Result<Self::Opening> {
        let (stream, _) = self.tcp.accept().await?;
        Ok(self.tls.acceptor().accept(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailroom_http::hyper::StatusCode;
    use mailroom_http::{Limits, plain};
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use std::fs;
    use std::net::SocketAddr;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsConnector;

    const LIMITS: Limits = Limits {
        connections: 8,
        head_bytes: 8192,
        head: Duration::from_secs(100),
        connection: Duration::from_secs(200),
    };

    /// Writes a new certificate and its key; returns what trusts it.
    fn renew(folder: &Path) -> RootCertStore {
        let made = rcgen::generate_simple_self_signed(["serve.test".to_owned()]).unwrap();
        fs::write(folder.join("certificate"), made.cert.pem()).unwrap();
        fs::write(folder.join("key"), made.signing_key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        roots
    }

    /// What is answered to whoever trusts these, if the handshake succeeds.
    async fn asked(address: SocketAddr, roots: RootCertStore) -> io::Result<String> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("serve.test").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: serve.test\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn a_renewed_certificate_is_used_once_it_was_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = [folder.path().join("certificate"), folder.path().join("key")];
        let first = renew(folder.path());
        let tls = Tls::read(&files[0], &files[1]).unwrap();
        let tcp = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = tcp.local_addr().unwrap();
        let listener = TlsListener { tcp, tls: tls.clone() };
        let answer = |_, _| async { plain(StatusCode::OK, "here") };
        tokio::spawn(mailroom_http::serve(listener, LIMITS, std::future::pending(), answer));
        // Whoever says nothing in the handshake, or something else, keeps nobody out.
        let silent = TcpStream::connect(address).await.unwrap();
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert!(asked(address, first.clone()).await.unwrap().ends_with("here"));

        let second = renew(folder.path());
        assert!(asked(address, second.clone()).await.is_err());
        tls.reload().unwrap();
        assert!(asked(address, second.clone()).await.unwrap().ends_with("here"));
        assert!(asked(address, first).await.is_err());
        // A key of another certificate, and none at all.
        let certificate = fs::read(&files[0]).unwrap();
        renew(folder.path());
        fs::write(&files[0], certificate).unwrap();
        assert!(tls.reload().is_err());
        fs::write(&files[1], "hunter2").unwrap();
        let error = tls.reload().unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(asked(address, second).await.unwrap().ends_with("here"));
        drop(silent);
    }
}
