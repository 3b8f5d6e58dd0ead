//! Who may ask: programs of this machine, and pages of this server in its browsers.
//!
//! The server listens on loopback, where every page that a browser shows can send requests, too.
//! A page of another site is told from this one by `Origin` and `Sec-Fetch-Site`; a name that
//! somebody lets point at this machine (DNS rebinding) by `Host`.

use std::net::SocketAddr;

use hyper::header::{AsHeaderName, HOST, ORIGIN};
use hyper::{HeaderMap, Method, Request};

/// The names by which a server on loopback may be asked.
#[derive(Clone, Debug)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Those of a server that listens at this address.
    pub fn of(address: SocketAddr) -> Self {
        let port = address.port();
        let names = [format!("localhost:{port}"), address.to_string()];
        // Browsers leave the port of HTTP out.
        let short = names.iter().filter_map(|name| name.strip_suffix(":80").map(str::to_owned));
        Self(names.iter().cloned().chain(short).collect())
    }

    /// Why a request is refused, if it is.
    pub fn refusal<B>(&self, request: &Request<B>) -> Option<&'static str> {
        let headers = request.headers();
        let is_known = |name: &str| self.0.iter().any(|known| known.eq_ignore_ascii_case(name));
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        // What a proxy is asked for names the server, too (RFC 9112, section 3.2.2).
        let is_named = request.uri().authority().is_none_or(|name| is_known(name.as_str()));
        if hosts.next().is_some() || !host.is_some_and(is_known) || !is_named {
            return Some("this server answers to localhost and its own address alone");
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        let is_own = |origin: &str| origin.strip_prefix("http://").is_some_and(is_known);
        if origins.any(|origin| !origin.to_str().is_ok_and(is_own)) {
            return Some("a page of another site asks");
        }
        // Without `Origin` come links to this server, which are welcome, and images, scripts and
        // frames of other sites, which are not.
        let is_elsewhere = matches!(text(headers, "sec-fetch-site"), "cross-site" | "same-site");
        let is_link = matches!(*request.method(), Method::GET | Method::HEAD)
            && text(headers, "sec-fetch-mode") == "navigate"
            && text(headers, "sec-fetch-dest") == "document";
        (is_elsewhere && !is_link).then_some("a page of another site asks")
    }
}

fn text(headers: &HeaderMap, name: impl AsHeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(headers: &[(&str, &str)]) -> bool {
        is_refused_of("GET", "/mails", headers)
    }

    fn is_refused_of(method: &str, target: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let hosts = Hosts::of("127.0.0.1:8025".parse().unwrap());
        hosts.refusal(&request.body(()).unwrap()).is_some()
    }

    #[test]
    fn only_this_machine_and_this_servers_own_pages_may_ask() {
        let host = ("host", "127.0.0.1:8025");
        for headers in [
            &[host][..],
            &[("host", "LOCALHOST:8025")],
            &[host, ("origin", "http://127.0.0.1:8025"), ("sec-fetch-site", "same-origin")],
            &[host, ("sec-fetch-site", "none")],
            &[
                host,
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
        ] {
            assert!(!is_refused(headers), "{headers:?}");
        }
        for headers in [
            &[][..],
            &[("host", "evil.test:8025")],
            &[("host", "127.0.0.1:8026")],
            &[("host", "127.0.0.1")],
            &[host, ("host", "evil.test")],
            &[host, ("origin", "http://evil.test")],
            &[host, ("origin", "https://127.0.0.1:8025")],
            &[host, ("origin", "http://localhost:3000")],
            &[host, ("origin", "null")],
            &[host, ("origin", "http://127.0.0.1:8025"), ("origin", "null")],
            &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
            &[
                host,
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "iframe"),
            ],
        ] {
            assert!(is_refused(headers), "{headers:?}");
        }
    }

    #[test]
    fn a_target_names_this_server_and_a_link_changes_nothing() {
        let host = ("host", "127.0.0.1:8025");
        assert!(!is_refused_of("GET", "http://localhost:8025/mails", &[host]));
        assert!(is_refused_of("GET", "http://evil.test/mails", &[host]));
        assert!(is_refused_of("GET", "http://a@127.0.0.1:8025/mails", &[host]));
        let link = [
            host,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        for (method, expected) in
            [("GET", false), ("HEAD", false), ("POST", true), ("DELETE", true)]
        {
            assert_eq!(is_refused_of(method, "/mails", &link), expected, "{method}");
        }
    }
}
