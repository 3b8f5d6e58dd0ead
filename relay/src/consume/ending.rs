//! How a message ends: its verdict is recorded, then the broker is told that it is done with.

use std::time::Duration;

use tokio::time::sleep;

use super::PAUSE;
use super::pulling::Shared;
use crate::broker::{Broker, Fault};
use crate::message::Verdict;

/// How often it is tried to say that a message is done with, whose verdict is recorded.
const MOST_ACKS: usize = 10;

/// What is said to the broker of a message.
pub(super) enum Word {
    Done(Option<Verdict>),
    Foreign,
    Again(Option<Verdict>, Duration),
}

/// Records a verdict and then ends a message. What cannot be recorded is said again until it can: a
/// message that is done with without a verdict would be one whose fate nobody knows.
pub(super) async fn say<B: Broker>(
    shared: &Shared<B>,
    handle: &B::Handle,
    sequence: u64,
    word: Word,
) {
    let recording = async {
        loop {
            let recorded = match &word {
                Word::Done(Some(verdict)) | Word::Again(Some(verdict), _) => {
                    shared.broker.record(verdict, sequence).await
                }
                Word::Foreign => shared.broker.record_foreign(sequence).await,
                Word::Done(None) | Word::Again(None, _) => Ok(()),
            };
            match recorded {
                Ok(()) => break,
                Err(fault) => {
                    shared.counts.fault(&fault.to_string());
                    sleep(PAUSE).await;
                }
            }
        }
    };
    // Or another machine would get the mail meanwhile, and send it, too.
    let holding = async {
        loop {
            sleep(shared.broker.patience() / 3).await;
            shared.broker.working(handle).await.ok();
        }
    };
    tokio::select! { () = recording => {}, () = holding => {} }
    for _ in 0..MOST_ACKS {
        let ended: Result<(), Fault> = match &word {
            Word::Done(_) | Word::Foreign => shared.broker.done(handle).await,
            Word::Again(verdict, after) => {
                let doubts = verdict.as_ref().map(|verdict| verdict.doubts);
                shared.broker.give_back(handle, *after, doubts).await
            }
        };
        match ended {
            Ok(()) => return,
            Err(fault) => {
                shared.counts.fault(&fault.to_string());
                sleep(PAUSE).await;
            }
        }
    }
}
