//! Where a server listens.

use std::net::{Ipv4Addr, SocketAddr};

/// Reads `ADDRESS:PORT`, or `PORT` alone, which is of this machine only: 127.0.0.1.
pub fn address(text: &str) -> Option<SocketAddr> {
    let port = || text.parse().ok().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    text.parse().ok().or_else(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        for (text, expected) in [
            ("9464", Some("127.0.0.1:9464")),
            ("127.0.0.1:0", Some("127.0.0.1:0")),
            ("0.0.0.0:9464", Some("0.0.0.0:9464")),
            ("[::1]:9464", Some("[::1]:9464")),
            ("::1:9464", None),
            ("localhost:9464", None),
            ("65536", None),
            ("-1", None),
            (":9464", None),
            ("", None),
        ] {
            assert_eq!(address(text).map(|address| address.to_string()).as_deref(), expected);
        }
    }
}
