//! Trying the servers in turn.

use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Duration;

use super::attempt::{Attempt, Place};
use super::server::{Host, Server};
use super::settings::SessionKind;
use super::{ConnectError, ConnectionSettings, FailedAttempt, FailureKind, Session, SessionOptions, tls};

/// Connects to the first server that lets us in.
///
/// Names are looked up, and password file and certificates read, at each call.
///
/// # Errors
///
/// Says for each server that was tried what went wrong. As with libpq, a server that refuses the user or the
/// database ends the search; one that cannot be reached or is not ready does not.
pub async fn connect(
    settings: &ConnectionSettings,
    options: &SessionOptions<'_>,
) -> Result<Session, ConnectError> {
    let failed = |attempts| ConnectError {
        database: settings.database.clone(),
        user: settings.user.clone(),
        attempts,
    };
    let tls = if settings.uses_tls() { tls::load(&settings.tls) } else { Ok(tls::without_encryption()) };

    let mut servers: Vec<&Server> = settings.servers.iter().collect();
    if settings.shuffle {
        servers.sort_by_cached_key(|_| RandomState::new().hash_one(()));
    }
    let kinds: &[SessionKind] = match &settings.session_kind {
        SessionKind::PreferStandby => &[SessionKind::Standby, SessionKind::Any],
        kind => std::slice::from_ref(kind),
    };
    let mut attempts = Vec::new();
    for &kind in kinds {
        attempts.clear();
        for server in &servers {
            let places = match in_time(settings.liveness.connect_timeout, places(server)).await {
                Some(Ok(places)) => places,
                Some(Err(failure)) => {
                    attempts.push(failure);
                    continue;
                }
                None => {
                    let reason = "the host name was not looked up in time; does name resolution work?";
                    attempts.push(FailedAttempt::new(&server.to_string(), FailureKind::TimedOut, reason));
                    continue;
                }
            };
            for place in places {
                let attempt = Attempt { settings, options, tls: &tls, kind, server, place };
                let connected = match attempt.connect().await {
                    Ok(session) if options.needs_session && !session.keeps_state => {
                        Box::pin(attempt.keep(session)).await
                    }
                    outcome => outcome,
                };
                match connected {
                    Ok(session) => return Ok(session),
                    Err(failure) => {
                        let go_on = failure.leaves_other_servers();
                        attempts.push(failure);
                        if !go_on {
                            return Err(failed(attempts));
                        }
                    }
                }
            }
        }
    }
    Err(failed(attempts))
}

/// Runs a future, but no longer than allowed.
pub(super) async fn in_time<F: Future>(limit: Option<Duration>, future: F) -> Option<F::Output> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}

/// Where a server may be; a name can have several addresses.
async fn places(server: &Server) -> Result<Vec<Place>, FailedAttempt> {
    if let Some(folder) = server.socket_folder() {
        return Ok(vec![Place::Socket(folder.to_owned())]);
    }
    if let Some(address) = server.address {
        return Ok(vec![Place::Address(address)]);
    }
    let Host::Tcp(name) = &server.host else { unreachable!("all but names have a folder or an address") };
    let failed = |reason: String| FailedAttempt::new(&server.to_string(), FailureKind::Unreachable, reason);
    let found = tokio::net::lookup_host((name.as_str(), server.port))
        .await
        .map_err(|error| failed(format!("the host name has no address: {error}")))?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    if addresses.is_empty() {
        return Err(failed("the host name has no address".to_owned()));
    }
    Ok(addresses.into_iter().map(Place::Address).collect())
}
