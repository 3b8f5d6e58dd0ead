use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use super::*;

#[test]
fn an_address_that_is_silent_leaves_time_to_the_next() {
    let [silent, good] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [silent.local_addr().unwrap(), good.local_addr().unwrap()];
    let server = thread::spawn(move || {
        let (mut stream, _) = good.accept().unwrap();
        stream.write_all(b"220 mail.example\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        stream.write_all(b"250 mail.example\r\n").unwrap();
        line
    });
    let config = toml::from_str("server = \"127.0.0.1\"\ntls = \"none\"").unwrap();
    let smtp = Smtp::new(&config).unwrap();
    let start = Instant::now();
    let dialogue = smtp.connect(&addresses, start + Duration::from_secs(8)).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(4));
    drop(dialogue);
    assert!(server.join().unwrap().starts_with("EHLO "));
    assert!(smtp.connect(&addresses[..1], Instant::now() + Duration::from_millis(100)).is_err());
}

fn smtp_at(port: u16) -> Smtp {
    let table = format!("server = \"127.0.0.1\"\nport = {port}\ntls = \"none\"");
    Smtp::new(&toml::from_str(&table).unwrap()).unwrap()
}

fn sealed() -> Sealed {
    Sealed {
        key: crate::protocol::Key::default(),
        provider: "smtp".to_owned(),
        fixed_at: 0,
        envelope_sender: "us@x.test".to_owned(),
        to: "ada@x.test".to_owned(),
        payload: "Subject: a\r\n\r\n.a\r\n".to_owned(),
        other: None,
    }
}

/// A progress that is recorded nowhere.
struct Nowhere;

impl Progress for Nowhere {
    fn enter_doubt(&self) -> Result<Option<Duration>, String> {
        Ok(None)
    }
}

/// Takes so many connections, each of which hears these replies to its commands of MAIL, and ends
/// with the client. Returns how many of them ended with QUIT.
fn serve(listener: &TcpListener, connections: &[&[&str]]) -> usize {
    let mut farewells = 0;
    for replies in connections {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example\r\n").unwrap();
        let mut replies = replies.iter();
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            let reply = match line.split([' ', ':']).next().unwrap() {
                "MAIL" => replies.next().unwrap(),
                "DATA" => "354 go on",
                "EHLO" | "RSET" | "RCPT" | "." => "250 ok",
                "QUIT" => {
                    farewells += 1;
                    "221 bye"
                }
                _ => continue,
            };
            stream.write_all(format!("{reply}\r\n").as_bytes()).unwrap();
        }
    }
    farewells
}

#[test]
fn a_refusal_at_mail_is_heard_once_more_from_a_new_connection_if_this_one_has_had_mails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let smtp = smtp_at(listener.local_addr().unwrap().port());
    let (ok, full) = ("250 ok", "452 4.5.3 too many messages in this session");
    let server = thread::spawn(move || {
        serve(
            &listener,
            &[&[ok, full], &[ok, "530 5.7.0 log in"], &["451 4.7.0 a broken one", full], &[ok]],
        )
    });
    let mut connection = smtp.connection();
    let mut deliver = || connection.deliver(&sealed(), "Subject: a\r\n", &Nowhere);
    assert!(matches!(deliver(), Verdict::Sent(_)));
    assert!(matches!(deliver(), Verdict::Sent(_)));
    // The new connection is refused, too: it is tried again with another mail.
    let Verdict::Unavailable { reason, .. } = deliver() else { panic!("it was refused") };
    assert_eq!(reason, "MAIL FROM: 451 4.7.0 a broken one");
    assert!(matches!(deliver(), Verdict::Sent(_)));
    drop(connection);
    assert_eq!(server.join().unwrap(), 4);
}

/// A progress that cannot be recorded.
struct FullDisk;

impl Progress for FullDisk {
    fn enter_doubt(&self) -> Result<Option<Duration>, String> {
        Err("the disk is full".to_owned())
    }
}

#[test]
fn a_mail_is_not_ended_if_doubt_cannot_be_recorded() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example\r\n").unwrap();
        let mut heard = Vec::new();
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            let reply = match line.split([' ', ':']).next() {
                Some("EHLO" | "MAIL" | "RCPT") => "250 ok\r\n",
                Some("DATA") => "354 go on\r\n",
                _ => "",
            };
            heard.push(line);
            stream.write_all(reply.as_bytes()).unwrap();
        }
        heard
    });
    let (smtp, sealed) = (smtp_at(port), sealed());
    let verdict = smtp.connection().deliver(&sealed, &sealed.payload, &FullDisk);
    assert_eq!(
        verdict,
        Verdict::Unavailable { after: None, reason: "the disk is full".to_owned() }
    );
    let heard = server.join().unwrap();
    assert_eq!(heard[3..], ["DATA", "Subject: a", "", "..a"]);
}
