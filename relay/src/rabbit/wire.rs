//! The way to a server, with TLS by the same library as everywhere else.
//!
//! The client's own TLS would bring a second library of cryptography with it, and one for old
//! containers of keys.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_util::Stream;
use futures_util::io::{AsyncRead, AsyncWrite};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

use crate::Error;
use crate::access::{BrokerArguments, unreadable};

/// A stream of bytes, in whichever way.
trait Bytes: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Bytes for T {}

/// The same as the client wants it.
type Opened = Compat<Box<dyn Bytes>>;

/// How servers are reached.
#[derive(Clone)]
pub(super) struct Wire {
    tls: Option<TlsConnector>,
}

impl Wire {
    /// # Errors
    /// Files that cannot be read, and certificates that are none.
    pub(super) fn new(arguments: &BrokerArguments) -> Result<Self, Error> {
        let is_needed = arguments.to.contains("amqps://");
        let config = is_needed.then(|| config(arguments)).transpose()?;
        Ok(Self { tls: config.map(|config| TlsConnector::from(Arc::new(config))) })
    }

    pub(super) async fn connect(
        &self,
        server: AMQPUri,
        properties: ConnectionProperties,
    ) -> lapin::Result<Connection> {
        let tls = self.tls.clone();
        let runtime = Runtime::new(RuntimeParts::new(Tokio::current(), Opener(Tokio::current())));
        let open = async move |server: AMQPUri, _| {
            let opened = open(&server, tls.as_ref()).await?;
            Ok(AsyncTcpStream::Plain(opened.compat()))
        };
        Connection::connector(server, runtime, open, properties).await
    }
}

async fn open(server: &AMQPUri, tls: Option<&TlsConnector>) -> io::Result<Box<dyn Bytes>> {
    let host = server.authority.host.trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, server.authority.port)).await?;
    stream.set_nodelay(true)?;
    if server.scheme == AMQPScheme::AMQP {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let tls = tls.ok_or_else(|| io::Error::other("there is no TLS"))?;
    Ok(Box::new(tls.connect(name, stream).await?))
}

fn config(arguments: &BrokerArguments) -> Result<ClientConfig, Error> {
    let access = &arguments.access;
    let mut trusted = RootCertStore::empty();
    if let Some(file) = access.authority()? {
        for certificate in certificates(file)? {
            trusted.add(certificate).map_err(|error| unusable(file, &error))?;
        }
    } else {
        let of_the_system = rustls_native_certs::load_native_certs().certs;
        trusted.add_parsable_certificates(of_the_system);
    }
    if trusted.is_empty() {
        let fault = "no certificate is trusted: name --authority";
        return Err(Error::Usage(fault.to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Failure(error.to_string()))?
        .with_root_certificates(trusted);
    let Some((certificate, key)) = access.identity()? else {
        return Ok(config.with_no_client_auth());
    };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    let config = config.with_client_auth_cert(certificates(certificate)?, private);
    config.map_err(|error| unusable(certificate, &error))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = std::fs::read(file).map_err(|error| unreadable(file, &error))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    certificates.map_err(|error| unusable(file, &error))
}

fn unusable(file: &Path, error: &dyn fmt::Display) -> Error {
    Error::Usage(format!("{} cannot be used: {error}", file.display()))
}

/// What the client asks for time, beside the streams that it is given.
#[derive(Clone, Debug)]
struct Opener(Tokio);

impl Reactor for Opener {
    type TcpStream = Opened;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.0.register(socket)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    /// Not asked for: what is connected to may need TLS.
    fn tcp_connect_addr(
        &self,
        _: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        std::future::ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
