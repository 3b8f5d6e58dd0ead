//! Which servers are connected to, and how.

use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};

use crate::Error;
use crate::access::{BrokerArguments, Way, unusable_url};

/// How often a server is asked for a sign of life. After the third one in vain the connection is
/// made anew: the client's own minute would let mails wait for three.
const SIGNS_OF_LIFE: Duration = Duration::from_secs(5);

/// The servers, of which none is named with a password.
///
/// # Errors
/// What is no such URL, and no TLS to another machine.
pub(crate) fn servers(arguments: &BrokerArguments) -> Result<Vec<ServerAddr>, Error> {
    let mut servers = Vec::new();
    for url in arguments.urls()? {
        let fault = "must be tls://HOST:PORT, or nats://127.0.0.1:PORT";
        let server: ServerAddr = url.parse().map_err(|_| unusable_url(fault))?;
        let way = match server.scheme() {
            "tls" => Way::Tls,
            "nats" => Way::Clear,
            _ => return Err(unusable_url("must begin with tls:// or nats://")),
        };
        arguments.check_way(server.host(), way, "tls")?;
        servers.push(server);
    }
    Ok(servers)
}

/// How a connection is made.
///
/// # Errors
/// Files that cannot be read.
pub(super) fn options(arguments: &BrokerArguments) -> Result<ConnectOptions, Error> {
    let access = &arguments.access;
    // A server names others before anything is encrypted, and the client would connect to them
    // without TLS: whoever stands in between could name one of their own. All that may be
    // connected to are in the URL.
    let mut options =
        ConnectOptions::new().ignore_discovered_servers().ping_interval(SIGNS_OF_LIFE);
    if let Some((user, password)) = access.login()? {
        options = options.user_and_password(user, password);
    }
    if let Some(file) = access.authority()? {
        options = options.add_root_certificates(file.to_owned());
    }
    if let Some((certificate, key)) = access.identity()? {
        options = options.add_client_certificate(certificate.to_owned(), key.to_owned());
    }
    Ok(options)
}
