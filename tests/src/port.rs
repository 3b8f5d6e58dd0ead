//! Ports for servers that cannot choose one by themselves.

use std::collections::HashSet;
use std::iter;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

/// A port of 127.0.0.1 that nobody listens on now, and that this process was not given before.
///
/// It is below those that connections and servers at port 0 get, one of which could take it before
/// the server listens, or while it is stopped.
pub fn free() -> Result<u16> {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    let is_free =
        |port: &u16| given.insert(*port) && TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = iter::repeat_with(|| fastrand::u16(10_000..30_000)).take(1_000);
    ports.find(is_free).context("of a thousand random ports of 127.0.0.1 none is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports: HashSet<u16> = (0..300).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 300);
    }
}
