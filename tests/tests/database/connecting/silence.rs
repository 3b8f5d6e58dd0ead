//! A server that vanished without a word, as after a power failure or behind a broken firewall.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use socket2::{SockFilter, SockRef};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::encryption::TLS_SERVER;
use super::environment::TestEnvironment;
use super::session;

/// Longer than the ten seconds that are promised, because the machine that runs the tests has other
/// work: the settings that keep the promise are tested in `crates/connect`. Without them it
/// takes a quarter of an hour.
const LONGEST: Duration = Duration::from_secs(120);

/// Something on the way to the server that can swallow all packets from one moment on.
struct Path {
    address: SocketAddr,
    swallow: watch::Sender<bool>,
}

impl Path {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (swallow, swallowing) = watch::channel(false);
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let mut swallowing = swallowing.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => return,
                        _ = swallowing.wait_for(|&swallow| swallow) => {}
                    }
                    // The kernel drops what arrives before it is acknowledged; nobody learns of it.
                    let drop_all = SockFilter::new(0x06, 0, 0, 0);
                    SockRef::from(&client).attach_filter(&[drop_all]).unwrap();
                    std::future::pending::<()>().await;
                });
            }
        });
        Self { address, swallow }
    }
}

#[tokio::test]
async fn a_server_that_vanished_is_noticed_long_before_the_kernel_would() {
    let path = Path::to(TLS_SERVER.cluster.port()).await;
    let string = format!("host=127.0.0.1 port={} user=either dbname=postgres", path.address.port());
    let environment = TestEnvironment::new();
    let mut idle = session(&string, &environment).await.unwrap();
    let busy = session(&string, &environment).await.unwrap();
    tokio::spawn(busy.connection.run());
    busy.client.batch_execute("SELECT 1").await.unwrap();

    // What is not acknowledged when the packets are swallowed would be sent again,
    // which is a sign of life.
    tokio::time::sleep(Duration::from_millis(500)).await;
    path.swallow.send(true).unwrap();
    // Until the filter is in place, an answer may still come through.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let vanished = Instant::now();
    let listening = async {
        let outcome = idle.connection.notification().await;
        (outcome.expect("the client is alive").is_err(), vanished.elapsed())
    };
    let asking =
        async { (busy.client.batch_execute("SELECT 1").await.is_err(), vanished.elapsed()) };
    let (listening, asking) = tokio::join!(
        tokio::time::timeout(LONGEST, listening),
        tokio::time::timeout(LONGEST, asking)
    );

    let (failed, time) = listening.expect("the idle connection was not given up");
    assert!(failed);
    println!("the idle connection was given up after {time:.1?}");
    let (failed, time) = asking.expect("the query was not given up");
    assert!(failed);
    println!("the query was given up after {time:.1?}");
}
