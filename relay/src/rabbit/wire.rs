//! The way to a server, with TLS by the same library as everywhere else.
//!
//! The client's own TLS would bring a second library of cryptography with it, and one for old
//! containers of keys.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream as Socket};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
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
        let attempt = Attempt::default();
        let made = attempt.clone();
        let runtime = Runtime::new(RuntimeParts::new(Tokio::current(), Opener(Tokio::current())));
        let open = async move |server: AMQPUri, _| {
            let opened = open(&server, tls.as_ref(), &made).await?;
            Ok(AsyncTcpStream::Plain(opened.compat()))
        };
        let until_it_ends = Watched(attempt);
        let outcome = Connection::connector(server, runtime, open, properties).await;
        until_it_ends.0.finish();
        outcome
    }
}

/// A connection that is being made. A thread of the client waits for it, for ever where a server
/// accepts it and says nothing, and also when nobody wants it any more.
#[derive(Clone, Default)]
struct Attempt(Arc<Mutex<Stage>>);

#[derive(Default)]
enum Stage {
    #[default]
    Begun,
    /// The same connection once more.
    Connected(Socket),
    GivenUp,
    Finished,
}

impl Attempt {
    fn connected(&self, stream: &TcpStream) -> io::Result<()> {
        let socket = Socket::from(stream.as_fd().try_clone_to_owned()?);
        let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*stage, Stage::GivenUp) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        *stage = Stage::Connected(socket);
        Ok(())
    }

    fn finish(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Stage::Finished;
    }

    fn give_up(&self) {
        let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *stage, Stage::GivenUp) {
            Stage::Finished => *stage = Stage::Finished,
            Stage::Connected(socket) => _ = socket.shutdown(Shutdown::Both),
            Stage::Begun | Stage::GivenUp => {}
        }
    }
}

/// Whoever waits no longer gives it up.
struct Watched(Attempt);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

async fn open(
    server: &AMQPUri,
    tls: Option<&TlsConnector>,
    attempt: &Attempt,
) -> io::Result<Box<dyn Bytes>> {
    let host = server.authority.host.trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, server.authority.port)).await?;
    attempt.connected(&stream)?;
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
