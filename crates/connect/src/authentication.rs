//! Which proofs of identity a server may ask for, and a stream that ends the connection before any
//! other is given.

mod watch;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::SettingsError;
use super::parameters::Values;
use watch::Watch;

/// How a client can prove who it is; libpq's names are in [`METHODS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// The server asks for nothing.
    None,
    /// The password itself.
    Password,
    /// A hash of it, from which it can be guessed and which is as good as the password.
    Md5,
    /// A proof that tells nothing of it.
    Scram,
}

const METHODS: [(&str, Method); 4] = [
    ("none", Method::None),
    ("password", Method::Password),
    ("md5", Method::Md5),
    ("scram-sha-256", Method::Scram),
];

/// Those that no connection of this program uses: to exclude them asks for nothing.
const UNUSED: [&str; 3] = ["gss", "sspi", "oauth"];

/// The methods that a connection may use; libpq's `require_auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowed {
    methods: [bool; METHODS.len()],
    /// Whether the password itself may be sent without encryption, beyond this machine.
    sends_password_in_clear: bool,
    /// Whether the setting excludes any.
    pub(crate) is_restricted: bool,
}

impl Default for Allowed {
    fn default() -> Self {
        Self {
            methods: [true; METHODS.len()],
            sends_password_in_clear: false,
            is_restricted: false,
        }
    }
}

impl Allowed {
    /// Reads `require_auth`: methods, or methods to exclude with `!` before each.
    pub(crate) fn read(values: &Values) -> Result<Self, SettingsError> {
        let Some((origin, text)) = values.non_empty("require_auth")? else {
            return Ok(Self::default());
        };
        let invalid = || {
            let allowed = "methods separated by commas (none, password, md5, scram-sha-256), all \
                           or none of them with `!` before it";
            SettingsError::invalid(origin, allowed)
        };
        let excludes = text.starts_with('!');
        let mut allowed =
            Self { methods: [excludes; METHODS.len()], is_restricted: true, ..Self::default() };
        for word in text.split(',') {
            let name = match (excludes, word.strip_prefix('!')) {
                (true, Some(name)) => name,
                (false, None) => word,
                _ => return Err(invalid()),
            };
            match METHODS.iter().position(|(known, _)| *known == name) {
                Some(index) => allowed.methods[index] = !excludes,
                None if excludes && UNUSED.contains(&name) => {}
                None => return Err(invalid()),
            }
        }
        allowed.sends_password_in_clear = !excludes && allowed.allows(Method::Password);
        Ok(allowed)
    }

    /// The same for a connection without encryption to another machine.
    pub(crate) fn in_clear(mut self) -> Self {
        self.methods[Method::Password as usize] &= self.sends_password_in_clear;
        self
    }

    fn allows(self, method: Method) -> bool {
        self.methods[method as usize]
    }
}

/// A method that was asked for and is not allowed.
#[derive(Debug)]
pub(crate) struct RefusedMethod {
    method: Method,
    is_restricted: bool,
}

impl fmt::Display for RefusedMethod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = METHODS[self.method as usize];
        if self.method == Method::Password && !self.is_restricted {
            return formatter.write_str(
                "the server asks for the password itself, and the connection is not encrypted; it \
                 was not sent. Set sslmode=verify-full, or have the server use scram-sha-256; \
                 require_auth=password sends it all the same",
            );
        }
        write!(
            formatter,
            "the server asks for the authentication method {name}, which require_auth excludes"
        )
    }
}

impl Error for RefusedMethod {}

/// Makes the streams of connections, encrypted or not, that allow only some methods.
#[derive(Clone)]
pub(crate) struct Guard {
    /// Without it, what the library takes for an encrypted stream is none.
    pub(crate) tls: Option<MakeRustlsConnect>,
    pub(crate) allowed: Allowed,
}

type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
type Encrypting = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;

impl MakeTlsConnect<Socket> for Guard {
    type Stream = GuardedStream;
    type TlsConnect = Guarding;
    type Error = Box<dyn Error + Send + Sync>;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Guarding, Self::Error> {
        let make =
            |tls: &mut MakeRustlsConnect| MakeTlsConnect::<Socket>::make_tls_connect(tls, domain);
        let tls = self.tls.as_mut().map(make).transpose()?;
        Ok(Guarding { tls, allowed: self.allowed })
    }
}

/// One connection that is being made.
pub(crate) struct Guarding {
    tls: Option<Encrypting>,
    allowed: Allowed,
}

impl TlsConnect<Socket> for Guarding {
    type Stream = GuardedStream;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<GuardedStream, Self::Error>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        let watch = Watch::new(self.allowed);
        match self.tls {
            None => Box::pin(async { Ok(GuardedStream { bytes: Bytes::Plain(stream), watch }) }),
            Some(tls) => {
                let connecting = tls.connect(stream);
                Box::pin(async {
                    Ok(GuardedStream { bytes: Bytes::Tls(connecting.await?), watch })
                })
            }
        }
    }
}

#[allow(clippy::large_enum_variant, reason = "a session has one")]
enum Bytes {
    Tls(Encrypted),
    Plain(Socket),
}

/// A stream whose reader gets an error in place of a request for a proof that is not allowed.
pub(crate) struct GuardedStream {
    bytes: Bytes,
    watch: Watch,
}

impl TlsStream for GuardedStream {
    fn channel_binding(&self) -> ChannelBinding {
        match &self.bytes {
            Bytes::Tls(stream) => stream.channel_binding(),
            Bytes::Plain(_) => ChannelBinding::none(),
        }
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        ready!(match &mut self.bytes {
            Bytes::Tls(stream) => Pin::new(stream).poll_read(context, out),
            Bytes::Plain(stream) => Pin::new(stream).poll_read(context, out),
        })?;
        // Before the client sees it, and so before it answers.
        let Self { watch, .. } = &mut *self;
        let seen = &out.filled()[before..];
        Poll::Ready(watch.see(seen).map_err(watch::Fault::into_error))
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.bytes {
            Bytes::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Bytes::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.bytes {
            Bytes::Tls(stream) => Pin::new(stream).poll_flush(context),
            Bytes::Plain(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.bytes {
            Bytes::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Bytes::Plain(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn allowed(setting: &str) -> Result<Allowed, SettingsError> {
        let mut values = Values::default();
        values.set("require_auth", setting);
        Allowed::read(&values)
    }

    #[test]
    fn require_auth_lists_or_excludes_methods_as_libpq_does() {
        let methods = |setting| allowed(setting).unwrap().methods;
        assert_eq!(methods(""), [true; 4]);
        assert_eq!(methods("scram-sha-256"), [false, false, false, true]);
        assert_eq!(methods("md5,none"), [true, false, true, false]);
        assert_eq!(methods("!password,!md5,!gss"), [true, false, false, true]);
        for setting in
            ["scram", "md5,!password", "!md5,password", "gss", "oauth", "md5,", "md5 ,none", "!"]
        {
            assert!(allowed(setting).is_err(), "{setting}");
        }
    }
}
