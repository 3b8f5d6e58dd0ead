//! A server, or somebody between, that says more than any database has to say.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::environment::TestEnvironment;
use super::session;

/// How much it would say, in bytes.
const ENDLESS: usize = 512 << 20;

/// What system buffers on the way may hold besides what is read.
const BUFFERED: usize = 32 << 20;

#[tokio::test]
async fn a_message_without_end_is_not_kept() {
    let accepted = [&b"R\0\0\0\x08\0\0\0\0"[..], b"Z\0\0\0\x05I"].concat();
    for beginning in [Vec::new(), accepted] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 1_000]).unwrap() > 0);
            stream.write_all(&beginning).unwrap();
            stream.write_all(b"E\x7f\xff\xff\xff").unwrap();
            let text = vec![b'x'; 1 << 16];
            let mut said = 0;
            while said < ENDLESS && stream.write_all(&text).is_ok() {
                said += text.len();
            }
            said
        });
        let string = format!("host=127.0.0.1 port={port} user=u dbname=d sslmode=disable");
        assert!(session(&string, &TestEnvironment::new()).await.is_err());
        let said = server.join().unwrap();
        assert!(said < BUFFERED, "{said} bytes were read");
    }
}
