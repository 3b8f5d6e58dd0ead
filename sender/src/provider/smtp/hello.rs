//! The name that a server is greeted with (RFC 5321, 4.1.4).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// This machine's name if it is one that the world could know; else the address of this end of the
/// connection, as a literal.
pub(super) fn name(own: SocketAddr) -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_str().unwrap_or_default();
    if is_qualified(name) { name.to_owned() } else { literal(own.ip()) }
}

/// Whether this is a host's name with a domain: `mail.example.org`, and not `mail` or
/// `localhost.localdomain`.
fn is_qualified(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let lower = name.to_ascii_lowercase();
    let is_made_up =
        [".localdomain", ".localhost", ".local"].iter().any(|end| lower.ends_with(end));
    name.contains('.')
        && name.len() <= 253
        && name.split('.').all(is_label)
        && name.parse::<Ipv4Addr>().is_err()
        && !lower.starts_with("localhost.")
        && !is_made_up
}

fn literal(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => format!("[{address}]"),
        IpAddr::V6(address) => format!("[IPv6:{address}]"),
    }
}

/// Whether a name says that it is of this machine itself, which a server elsewhere may take for
/// spam.
pub(super) fn is_loopback(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = address.map(|text| text.strip_prefix("ipv6:").unwrap_or(text));
    let address = address.and_then(|text| text.parse::<IpAddr>().ok());
    address.is_some_and(|address| address.to_canonical().is_loopback())
        || name == "localhost"
        || name.starts_with("localhost.")
        || name.ends_with(".localdomain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_a_literal() {
        for (address, expected) in [
            ("192.0.2.7", "[192.0.2.7]"),
            ("2001:db8::1", "[IPv6:2001:db8::1]"),
            ("::ffff:192.0.2.7", "[192.0.2.7]"),
            ("::1", "[IPv6:::1]"),
        ] {
            assert_eq!(literal(address.parse().unwrap()), expected);
        }
    }

    #[test]
    fn a_name_without_a_domain_is_not_said() {
        for name in ["mail.example.org", "a.b", "web-1.x.test"] {
            assert!(is_qualified(name), "{name}");
        }
        for name in [
            "",
            "mail",
            "localhost",
            "localhost.localdomain",
            "mail.local",
            "a..b",
            ".a",
            "a.",
            "a_b.test",
            "-a.test",
            "192.0.2.7",
            "a b.test",
            "a.test\r\n",
        ] {
            assert!(!is_qualified(name), "{name}");
        }
    }

    #[test]
    fn what_is_of_this_machine_is_recognised() {
        for name in
            ["[127.0.0.1]", "[IPv6:::1]", "localhost", "LocalHost.localdomain", "[127.1.2.3]"]
        {
            assert!(is_loopback(name), "{name}");
        }
        for name in
            ["[192.0.2.7]", "mail.example.org", "[IPv6:2001:db8::1]", "127.0.0.1.example.org"]
        {
            assert!(!is_loopback(name), "{name}");
        }
    }
}
