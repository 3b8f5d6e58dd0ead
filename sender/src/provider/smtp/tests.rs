use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::atomic::AtomicUsize;
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
    let dialogue = smtp.connect(&addresses, start + Duration::from_secs(20)).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(10));
    drop(dialogue);
    assert!(server.join().unwrap().starts_with("EHLO "));
    assert!(smtp.connect(&addresses[..1], Instant::now() + Duration::from_millis(100)).is_err());
}

#[test]
fn who_counts_connections_is_given_fewer_by_an_operator_who_reads_so() {
    for (greeting, is_advised) in [
        ("421 4.7.0 Too many concurrent SMTP connections from this IP", true),
        ("421 4.3.2 too many sessions", true),
        ("421 4.3.2 closed for maintenance", false),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let smtp = smtp_at(listener.local_addr().unwrap().port());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(format!("{greeting}\r\n").as_bytes()).unwrap();
            BufReader::new(stream).lines().for_each(drop);
        });
        let mut connection = smtp.connection();
        let verdict = connection.deliver(&prepared(), "Subject: a\r\n", &Nowhere);
        let Verdict::Unavailable { reason, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!(reason.contains("set connections in [smtp]"), is_advised, "{reason}");
        server.join().unwrap();
    }
}

/// Takes one connection at a time, and refuses others. Counts those.
fn serve_one_at_a_time(listener: &TcpListener, refused: &AtomicUsize) {
    let is_busy = &AtomicBool::new(false);
    thread::scope(|scope| {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            if is_busy.swap(true, Ordering::SeqCst) {
                refused.fetch_add(1, Ordering::SeqCst);
                stream.write_all(b"421 too many connections\r\n").ok();
                continue;
            }
            scope.spawn(move || {
                stream.write_all(b"220 mail.example\r\n").ok();
                for line in
                    BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok)
                {
                    let reply = match line.split([' ', ':']).next() {
                        Some("DATA") => "354 go on\r\n",
                        Some("EHLO" | "MAIL" | "RCPT" | ".") => "250 ok\r\n",
                        Some("QUIT") => break,
                        _ => "",
                    };
                    stream.write_all(reply.as_bytes()).ok();
                }
                is_busy.store(false, Ordering::SeqCst);
                stream.write_all(b"221 bye\r\n").ok();
            });
        }
    });
}

#[test]
fn a_server_that_takes_fewer_connections_gets_all_mails_by_those() {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let smtp = smtp_at(listener.local_addr().unwrap().port());
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refused);
    thread::spawn(move || serve_one_at_a_time(&listener, &counted));
    let mut first = smtp.connection();
    let deliver = |connection: &mut Box<dyn Connection + '_>| {
        let verdict = connection.deliver(&prepared(), "Subject: a\r\n", &Nowhere);
        assert!(matches!(verdict, Verdict::Sent(_)), "{verdict:?}");
    };
    deliver(&mut first);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut connection = smtp.connection();
                (0..20).for_each(|_| deliver(&mut connection));
            });
        }
        // Its connection is shared once it is known that there are no more.
        let since = Instant::now();
        while smtp.sharing.enough().is_none() {
            // Its end ends the threads that wait for a connection.
            if since.elapsed() > Duration::from_secs(60) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        first.idle();
    });
    assert!(smtp.sharing.enough().is_some(), "it is not known how many connections are enough");
    let refused = refused.load(Ordering::SeqCst);
    assert!((1..=3).contains(&refused), "{refused} connections were refused");
}

#[test]
fn a_server_that_takes_fewer_connections_from_the_start_is_no_outage() {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let smtp = smtp_at(listener.local_addr().unwrap().port());
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refused);
    thread::spawn(move || serve_one_at_a_time(&listener, &counted));
    // It is held before any mail was accepted, as another thread does that has just opened it.
    let Turn::New(place) = smtp.sharing.enter(Instant::now()) else { panic!("it is not new") };
    let dialogue = smtp.open(Instant::now() + Duration::from_secs(20)).unwrap();
    thread::scope(|scope| {
        let second =
            scope.spawn(|| smtp.connection().deliver(&prepared(), "Subject: a\r\n", &Nowhere));
        while smtp.sharing.enough().is_none() && !second.is_finished() {
            thread::sleep(Duration::from_millis(10));
        }
        let open = Open::new(dialogue, place);
        assert!(smtp.sharing.share(open, Instant::now()).is_none(), "it is shared with nobody");
        let verdict = second.join().unwrap();
        assert!(matches!(verdict, Verdict::Sent(_)), "{verdict:?}");
    });
    assert_eq!(refused.load(Ordering::SeqCst), 1);
}

fn smtp_at(port: u16) -> Smtp {
    let table = format!("server = \"127.0.0.1\"\nport = {port}\ntls = \"none\"");
    Smtp::new(&toml::from_str(&table).unwrap()).unwrap()
}

fn prepared() -> PreparedMail {
    PreparedMail {
        key: crate::key::Key::default(),
        provider: "smtp".to_owned(),
        prepared_at: 0,
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

/// Takes so many connections, each of which hears these replies to its commands of MAIL, or to the
/// command that a reply begins with, and ends with the client. Returns how many of them ended with
/// QUIT.
fn serve(listener: &TcpListener, connections: &[&[&str]]) -> usize {
    let mut farewells = 0;
    for replies in connections {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example\r\n").unwrap();
        let mut replies = replies.iter();
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            let verb = line.split([' ', ':']).next().unwrap();
            // What is said to this verb only.
            let next = replies.as_slice().first().filter(|_| !verb.is_empty());
            let next = next.and_then(|next| next.strip_prefix(verb));
            let said = next.map(|reply| {
                replies.next();
                reply.trim_start()
            });
            let reply = match verb {
                _ if said.is_some() => said.unwrap(),
                "MAIL" => replies.next().unwrap(),
                "DATA" => "354 go on",
                "EHLO" | "HELO" | "RSET" | "RCPT" | "." => "250 ok",
                "QUIT" => {
                    farewells += 1;
                    "221 bye"
                }
                _ => continue,
            };
            // Nothing is said where the server leaves.
            if reply.is_empty() {
                break;
            }
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
    let mut deliver = || connection.deliver(&prepared(), "Subject: a\r\n", &Nowhere);
    assert!(matches!(deliver(), Verdict::Sent(_)));
    assert!(matches!(deliver(), Verdict::Sent(_)));
    // The new connection is refused, too: it is tried again with another mail.
    let Verdict::Unavailable { reason, .. } = deliver() else { panic!("it was refused") };
    assert_eq!(reason, "MAIL FROM: 451 4.7.0 a broken one");
    assert!(matches!(deliver(), Verdict::Sent(_)));
    drop(connection);
    assert_eq!(server.join().unwrap(), 4);
}

#[test]
fn a_limit_of_a_session_that_is_told_after_mail_ends_it_and_costs_no_mail() {
    for said in [
        "RCPT 452 4.5.3 Too many recipients in this session",
        "RCPT 450 too many messages per connection",
        "RCPT 421 4.7.0 too many mails",
        "RCPT ",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let smtp = smtp_at(listener.local_addr().unwrap().port());
        let server = thread::spawn(move || {
            let ok = "250 ok";
            let full: &[&str] = &[ok, ok, said];
            serve(&listener, &[full, full, full, &[ok, said], &[ok]])
        });
        let mut connection = smtp.connection();
        let mut deliver = || connection.deliver(&prepared(), "Subject: a\r\n", &Nowhere);
        for _ in 0..3 {
            assert!(matches!(deliver(), Verdict::Sent(_)), "{said}");
        }
        // A new connection on which it is said at once.
        let verdict = deliver();
        assert!(!matches!(verdict, Verdict::Sent(_)), "{said}: {verdict:?}");
        assert!(matches!(deliver(), Verdict::Sent(_)), "{said}");
        drop(connection);
        assert!(server.join().unwrap() >= 1);
    }
}

/// What a server says of parameters and of an address has the same code.
#[test]
fn an_address_that_is_refused_like_parameters_of_dsn_is_no_outage_and_takes_them_from_nobody() {
    const DSN: &str = "EHLO 250-mx\r\n250 DSN";
    const BAD: &str = "RCPT 501 5.1.3 bad address syntax";
    const OK: &str = "250 ok";
    const CASES: [(&[&[&str]], &[&str]); 6] = [
        // It leaves after the refusal, or knows no RSET, or says the refusal twice.
        (&[&[DSN, OK, BAD, "RSET "], &[DSN, OK, BAD]], &["dead"]),
        (&[&[DSN, OK, BAD, "RSET 502 no"], &[DSN, OK, BAD]], &["dead"]),
        (&[&[DSN, OK, BAD, "RSET 250 ok", ""], &[DSN, OK, BAD]], &["dead"]),
        (&[&[DSN, OK, "RCPT 501 no\r\n501 no"], &[DSN, OK]], &["sent"]),
        // A server that only does not know the parameters.
        (&[&[DSN, OK, "RCPT 555 5.5.4 what", OK, OK]], &["sent", "sent"]),
        (&[&[DSN, OK, "RCPT 555 5.5.4 what", "RSET "], &[DSN, OK]], &["sent"]),
    ];
    for (connections, expected) in CASES {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let smtp = smtp_at(listener.local_addr().unwrap().port());
        let server = thread::spawn(move || serve(&listener, connections));
        let mut connection = smtp.connection();
        for expected in expected {
            let verdict = connection.deliver(&prepared(), "Subject: a\r\n", &Nowhere);
            let found = match verdict {
                Verdict::Sent(_) => "sent",
                Verdict::Dead(_) => "dead",
                other => panic!("{other:?} after {connections:?}"),
            };
            assert_eq!(found, *expected, "{connections:?}");
        }
        drop(connection);
        server.join().unwrap();
    }
}

#[test]
fn the_parameters_of_dsn_stay_after_an_address_that_is_refused_without_them_too() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let smtp = smtp_at(listener.local_addr().unwrap().port());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example\r\n").unwrap();
        let mut recipients = Vec::new();
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            let reply = match line.split([' ', ':']).next() {
                Some("EHLO") => "250-mx\r\n250 DSN\r\n",
                Some("RCPT") if recipients.len() < 2 => "501 5.1.3 bad address syntax\r\n",
                Some("DATA") => "354 go on\r\n",
                Some("MAIL" | "RCPT" | "RSET" | ".") => "250 ok\r\n",
                _ => "",
            };
            if line.starts_with("RCPT") {
                recipients.push(line.contains("NOTIFY=FAILURE"));
            }
            stream.write_all(reply.as_bytes()).unwrap();
        }
        recipients
    });
    let mut connection = smtp.connection();
    let mut deliver = || connection.deliver(&prepared(), "Subject: a\r\n", &Nowhere);
    assert!(matches!(deliver(), Verdict::Dead(_)));
    assert!(matches!(deliver(), Verdict::Sent(_)));
    drop(connection);
    assert_eq!(server.join().unwrap(), [true, false, true]);
}

/// A filter before the server asks for the content, and passes on late that the server does.
#[test]
fn a_second_request_for_the_content_is_not_the_answer_to_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let smtp = smtp_at(listener.local_addr().unwrap().port());
    let server = thread::spawn(move || serve(&listener, &[&["250 ok", ". 354 go on\r\n250 ok"]]));
    let mut connection = smtp.connection();
    let verdict = connection.deliver(&prepared(), "Subject: a\r\n", &Nowhere);
    assert!(matches!(verdict, Verdict::Sent(_)), "{verdict:?}");
    drop(connection);
    server.join().unwrap();
}

/// The mail would be tried three times otherwise, and come as often.
#[test]
fn a_server_that_writes_text_without_a_code_before_its_reply_is_heard() {
    const REPLIES: &[&str] = &[
        "250 ok",
        ". Checking for viruses\r\n\r\nDone.\r\n250 2.0.0 queued",
        "250 ok",
        ". Checking for viruses\r\n554 5.7.1 virus found",
    ];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let smtp = smtp_at(listener.local_addr().unwrap().port());
    let server = thread::spawn(move || serve(&listener, &[REPLIES]));
    let mut connection = smtp.connection();
    let mut deliver = || connection.deliver(&prepared(), "Subject: a\r\n", &Nowhere);
    let Verdict::Sent(receipt) = deliver() else { panic!("it is not sent") };
    assert_eq!(receipt.answer, "250 2.0.0 queued");
    let verdict = deliver();
    assert!(!matches!(verdict, Verdict::Sent(_) | Verdict::InDoubt { .. }), "{verdict:?}");
    drop(connection);
    server.join().unwrap();
}

/// Nothing is waited for that such a server would say.
#[test]
fn what_does_not_greet_with_a_code_is_no_mail_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let smtp = smtp_at(listener.local_addr().unwrap().port());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"* OK this is IMAP\r\n").unwrap();
        BufReader::new(stream).lines().for_each(drop);
    });
    let begin = Instant::now();
    let verdict = smtp.connection().deliver(&prepared(), "Subject: a\r\n", &Nowhere);
    let Verdict::Unavailable { reason, .. } = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("does not begin with three digits"), "{reason}");
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    server.join().unwrap();
}

#[test]
fn an_address_that_is_not_ascii_is_refused_for_ever_only_where_no_connection_can_take_it() {
    const NONE: &str = "EHLO 250-mx\r\n250 8BITMIME";
    const UTF8: &str = "EHLO 250-mx\r\n250 SMTPUTF8";
    const OLD: &str = "EHLO 502 5.5.1 not now";
    let mail = || PreparedMail { to: "j\u{f6}s@x.test".to_owned(), ..prepared() };
    // What each connection hears, and what becomes of mails.
    let cases: [(&[&[&str]], &[&str]); 4] = [
        (&[&[NONE], &[NONE]], &["dead"]),
        (&[&[NONE], &[UTF8, "250 ok"]], &["sent"]),
        (&[&[UTF8, "250 ok", "421 bye"], &[NONE], &[NONE], &[NONE]], &["sent", "retry"]),
        (&[&[OLD], &[OLD], &[UTF8, "250 ok"]], &["retry", "sent"]),
    ];
    for (connections, expected) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let smtp = smtp_at(listener.local_addr().unwrap().port());
        thread::spawn(move || serve(&listener, connections));
        let mut connection = smtp.connection();
        for expected in expected {
            let verdict = connection.deliver(&mail(), "Subject: a\r\n", &Nowhere);
            let found = match verdict {
                Verdict::Sent(_) => "sent",
                Verdict::Retry { .. } => "retry",
                Verdict::Dead(_) => "dead",
                other => panic!("{other:?}"),
            };
            assert_eq!(found, *expected, "{connections:?}");
        }
    }
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
    let (smtp, prepared) = (smtp_at(port), prepared());
    let verdict = smtp.connection().deliver(&prepared, &prepared.payload, &FullDisk);
    assert_eq!(
        verdict,
        Verdict::Unavailable { after: None, reason: "the disk is full".to_owned() }
    );
    let heard = server.join().unwrap();
    assert_eq!(heard[3..], ["DATA", "Subject: a", "", "..a"]);
}
