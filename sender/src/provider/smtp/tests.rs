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
