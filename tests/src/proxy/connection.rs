//! One connection through the proxy.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

use super::messages::{Answers, Statements};
use super::trap::Trap;

/// What is done with the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Forward,
    SwallowAnswers,
    Silent,
    Cut,
}

/// What is known of both directions.
#[derive(Default)]
struct Talk {
    statements: Statements,
    answers: Answers,
    /// How many answers the server has given when the one arrives that the client must not see.
    last_answer: Option<u64>,
}

/// Carries bytes in both directions until one side ends or the connection is cut.
pub(super) async fn serve(
    mut client: TcpStream,
    mut server: TcpStream,
    mode: watch::Receiver<Mode>,
    trap: &Trap,
) {
    // What is small must not wait for more, as it does not without a proxy.
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let talk = Mutex::new(Talk::default());
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    // Whichever ends first ends the other; dropping the streams closes both sides.
    tokio::select! {
        _ = carry_statements(from_client, to_server, mode.clone(), trap, &talk) => {}
        _ = carry_answers(from_server, to_client, mode, trap, &talk) => {}
    }
}

async fn carry_statements(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut mode: watch::Receiver<Mode>,
    trap: &Trap,
    talk: &Mutex<Talk>,
) -> io::Result<()> {
    let mut bytes = vec![0; 65_536];
    while let Some(count) = read(&mut from, &mut bytes, &mut mode).await? {
        {
            let mut talk = locked(talk);
            let caught = talk.statements.read(&bytes[..count], |statement| trap.wants(statement));
            if let Some(transaction) = caught
                && talk.last_answer.is_none()
                && trap.spring()
            {
                talk.last_answer = Some(transaction);
            }
        }
        to.write_all(&bytes[..count]).await?;
    }
    Ok(())
}

async fn carry_answers(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut mode: watch::Receiver<Mode>,
    trap: &Trap,
    talk: &Mutex<Talk>,
) -> io::Result<()> {
    let mut bytes = vec![0; 65_536];
    while let Some(count) = read(&mut from, &mut bytes, &mut mode).await? {
        let last_answer = {
            let mut talk = locked(talk);
            talk.answers.read(&bytes[..count]);
            talk.last_answer.map(|last| talk.answers.complete() >= last)
        };
        match last_answer {
            // All that the server did for it is done.
            Some(true) => {
                trap.note();
                return Ok(());
            }
            Some(false) => {}
            None if *mode.borrow() == Mode::SwallowAnswers => {}
            None => to.write_all(&bytes[..count]).await?,
        }
    }
    Ok(())
}

/// Reads once it may; nothing at the end of the stream and when the connection is to be cut.
async fn read(
    from: &mut ReadHalf<'_>,
    bytes: &mut [u8],
    mode: &mut watch::Receiver<Mode>,
) -> io::Result<Option<usize>> {
    loop {
        let now = *mode.borrow_and_update();
        match now {
            Mode::Cut => return Ok(None),
            Mode::Silent => {
                if mode.changed().await.is_err() {
                    return Ok(None);
                }
            }
            Mode::Forward | Mode::SwallowAnswers => tokio::select! {
                biased;
                changed = mode.changed() => {
                    if changed.is_err() {
                        return Ok(None);
                    }
                }
                count = from.read(bytes) => {
                    let count = count?;
                    return Ok((count > 0).then_some(count));
                }
            },
        }
    }
}

fn locked(talk: &Mutex<Talk>) -> MutexGuard<'_, Talk> {
    talk.lock().unwrap_or_else(PoisonError::into_inner)
}
