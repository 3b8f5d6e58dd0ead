//! Which servers are connected to.

use lapin::uri::{AMQPScheme, AMQPUri};

use crate::Error;
use crate::access::{BrokerArguments, Way, unusable_url};

/// The servers, of which none is named with a password.
///
/// # Errors
/// What is no such URL, no TLS to another machine, and files that cannot be read.
pub(crate) fn servers(arguments: &BrokerArguments) -> Result<Vec<AMQPUri>, Error> {
    if arguments.access.replicas.is_some() {
        let fault = "is one of RabbitMQ, which decides itself how many servers store a mail: leave \
                     out --replicas";
        return Err(unusable_url(fault));
    }
    let login = arguments.access.login()?;
    let mut servers = Vec::new();
    for url in arguments.urls()? {
        let fault = "must be amqps://HOST:PORT/VHOST, or amqp://127.0.0.1:PORT";
        // What follows a question mark could take back what is set here.
        let is_clean = !url.contains(['?', '#']);
        let parsed = url.parse::<AMQPUri>().ok().filter(|_| is_clean);
        let mut server = parsed.ok_or_else(|| unusable_url(fault))?;
        let way = match server.scheme {
            AMQPScheme::AMQPS => Way::Tls,
            AMQPScheme::AMQP => Way::Clear,
        };
        arguments.check_way(&server.authority.host, way, "amqps")?;
        if let Some((user, password)) = login.clone() {
            server.authority.userinfo.username = user;
            server.authority.userinfo.password = password;
        }
        // A server gives up a connection after two of these without a sign of life.
        let patience = arguments.access.redeliver_after().as_secs();
        server.query.heartbeat = Some(u16::try_from(patience / 2).unwrap_or(u16::MAX).max(1));
        servers.push(server);
    }
    Ok(servers)
}
