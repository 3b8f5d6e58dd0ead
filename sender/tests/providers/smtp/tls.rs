//! Encryption: what somebody on the way may try, and certificates that are refused.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::sending::{Configuration, Sending, Verdict};

/// What the server does before the encryption, and what somebody on the way adds.
#[derive(Clone, Copy)]
enum Begin {
    /// Nothing: the encryption is implicit.
    Encrypted,
    /// The reply to STARTTLS, and then this, after a while.
    StartTls(&'static str, Duration),
    /// This instead of a handshake.
    Garbage(&'static str),
}

struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

/// A server that knows no recipient: every acceptance is forged.
fn server(begin: Begin, certificate: &CertificateParams, folder: &Configuration) -> Server {
    let key = KeyPair::generate().unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    fs::write(folder.path("ca.pem"), certificate.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&heard);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (config, noted) = (Arc::clone(&config), Arc::clone(&noted));
            thread::spawn(move || serve(stream, begin, config, &noted));
        }
    });
    Server { port, heard }
}

fn serve(
    mut stream: TcpStream,
    begin: Begin,
    config: Arc<ServerConfig>,
    heard: &Mutex<Vec<String>>,
) -> Option<()> {
    match begin {
        Begin::Encrypted => {}
        Begin::Garbage(text) => {
            stream.write_all(text.as_bytes()).ok()?;
            thread::sleep(Duration::from_secs(1));
            return None;
        }
        Begin::StartTls(added, pause) => {
            let mut input = BufReader::new(stream.try_clone().ok()?);
            let mut line = String::new();
            stream.write_all(b"220 mx\r\n").ok()?;
            input.read_line(&mut line).ok()?;
            stream.write_all(b"250-mx\r\n250-DSN\r\n250 StartTLS\r\n").ok()?;
            input.read_line(&mut line).ok()?;
            let (first, second) = if pause.is_zero() { (added, "") } else { ("", added) };
            stream.write_all(format!("220 go\r\n{first}").as_bytes()).ok()?;
            thread::sleep(pause);
            stream.write_all(second.as_bytes()).ok()?;
        }
    }
    let stream = StreamOwned::new(ServerConnection::new(config).ok()?, stream);
    let mut input = BufReader::new(stream);
    if matches!(begin, Begin::Encrypted) {
        input.get_mut().write_all(b"220 mx\r\n").ok()?;
    }
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|count| *count > 0)?;
        heard.lock().unwrap().push(line.trim_end().to_owned());
        let reply = if line.starts_with("RCPT") { "550 5.1.1 no such user" } else { "250 ok" };
        input.get_mut().write_all(format!("{reply}\r\n").as_bytes()).ok()?;
    }
}

fn localhost() -> CertificateParams {
    CertificateParams::new(vec!["localhost".to_owned()]).unwrap()
}

/// The verdict, and what the server has heard by encryption.
fn verdict(begin: Begin, certificate: &CertificateParams, trust: &str) -> (Verdict, Vec<String>) {
    let configuration = Configuration::new("", "");
    let server = server(begin, certificate, &configuration);
    let mode = if matches!(begin, Begin::StartTls(..)) { "tls = \"starttls\"" } else { "" };
    let table = format!(
        "[smtp]\nserver = \"localhost\"\nport = {}\n{mode}\n{trust}\ntimeout_seconds = 30\n",
        server.port
    );
    configuration.write("", &table);
    let mut sending = Sending::start(&configuration);
    let verdict = sending.verdict(1, "ada@example.org");
    sending.finish();
    let heard = server.heard.lock().unwrap().clone();
    (verdict, heard)
}

const TRUST: &str = "ca_file = \"ca.pem\"";

#[test]
fn what_somebody_on_the_way_adds_to_the_reply_to_starttls_is_not_believed() {
    let forged = "250 mx\r\n250 sender ok\r\n250 recipient ok\r\n354 go\r\n250 accepted\r\n";
    for added in [forged, "250 mx\r\n", "2", "\r\n2", "\0"] {
        let (verdict, heard) = verdict(Begin::StartTls(added, Duration::ZERO), &localhost(), TRUST);
        assert_eq!(verdict.kind, "unavailable", "{verdict:?}");
        let says_why = verdict.reason.contains("forge the server's answers");
        assert!(heard.is_empty() && says_why, "{verdict:?} {heard:?}");
    }
    // Later it spoils the handshake.
    let (verdict, heard) =
        verdict(Begin::StartTls(forged, Duration::from_millis(300)), &localhost(), TRUST);
    assert!(verdict.kind == "unavailable" && heard.is_empty(), "{verdict:?} {heard:?}");
}

#[test]
fn what_was_offered_before_the_encryption_is_forgotten() {
    let (verdict, heard) = verdict(Begin::StartTls("", Duration::ZERO), &localhost(), TRUST);
    assert_eq!(
        (verdict.kind.as_str(), verdict.reason.as_str()),
        ("dead", "550 5.1.1 no such user")
    );
    assert!(heard[0].starts_with("EHLO ") && heard[2] == "RCPT TO:<ada@example.org>", "{heard:?}");
}

#[test]
fn an_empty_line_before_the_encryption_says_nothing() {
    // It may come once the handshake has begun.
    for pause in [Duration::ZERO, Duration::from_millis(300)] {
        let (verdict, heard) = verdict(Begin::StartTls("\r\n", pause), &localhost(), TRUST);
        assert!(verdict.kind == "dead" && heard.len() >= 3, "{verdict:?} {heard:?}");
    }
}

#[test]
fn encryption_is_implicit_unless_something_else_is_said() {
    let (verdict, heard) = verdict(Begin::Encrypted, &localhost(), TRUST);
    assert!(verdict.kind == "dead" && heard.len() >= 3, "{verdict:?} {heard:?}");
    for text in ["220 mx ESMTP\r\n", "\u{16}\u{3}\u{1}\0\u{5}xxxxxxxx", ""] {
        let (found, _) = self::verdict(Begin::Garbage(text), &localhost(), TRUST);
        assert!(found.kind == "unavailable" && found.reason.contains("TLS failed"), "{found:?}");
        assert!(!text.starts_with('2') || found.reason.contains("tls = \"starttls\""), "{found:?}");
    }
}

#[test]
fn a_certificate_that_is_refused_is_explained() {
    let mut expired = localhost();
    (expired.not_before, expired.not_after) =
        (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let mut authority = localhost();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let other = CertificateParams::new(vec!["other.test".to_owned()]).unwrap();
    for (certificate, trust, expected) in [
        (localhost(), "", "set ca_file"),
        (other, TRUST, "set server to a name that it has"),
        (expired, TRUST, "has expired"),
        (authority, TRUST, "CA:TRUE"),
    ] {
        for begin in [Begin::Encrypted, Begin::StartTls("", Duration::ZERO)] {
            let (verdict, heard) = verdict(begin, &certificate, trust);
            assert!(
                verdict.kind == "unavailable" && verdict.reason.contains(expected),
                "{verdict:?}"
            );
            assert!(heard.is_empty(), "{heard:?}");
        }
    }
}
