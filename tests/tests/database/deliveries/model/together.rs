//! Steps in which several connections send their statements at the same time.
//!
//! Which of them the database takes first is not known. So what comes of it is compared with what
//! was so before and what is so afterwards: a token may be claimed if it was eligible at one of
//! these moments, and a lease that had not lapsed is settled by whoever holds it,
//! whatever the others do.

use anyhow::{Context, Result, ensure};
use mailroom::queue::{
    Batch, BatchId, ClaimRequest, DeliveriesQueue, Queue, QueueError, Settlement,
};

use super::super::{clock, state};
use super::Model;
use super::collecting::{check_claim, handed_on, settlement};
use super::living::{apply, set_status};
use super::steps::{Act, Beside};

/// A call of a collector that was prepared.
enum Call {
    SettleAndClaim(Vec<Settlement>, Option<ClaimRequest>),
    Heartbeat,
    Peek,
}

/// What a call has answered.
enum Answer {
    Given(Vec<Batch>),
    Lost(Vec<BatchId>),
    Nothing,
}

async fn ask(queue: &mut DeliveriesQueue, call: Call) -> Result<Answer, QueueError> {
    Ok(match call {
        Call::SettleAndClaim(settlements, want) => {
            Answer::Given(queue.settle_and_claim(settlements, want).await?.batches)
        }
        Call::Heartbeat => Answer::Lost(queue.heartbeat().await?),
        Call::Peek => {
            queue.peek(10).await?;
            Answer::Nothing
        }
    })
}

impl Model<'_> {
    pub(super) async fn together(
        &mut self,
        (first, first_act): &(usize, Act),
        (second, second_act): &(usize, Act),
        beside: &Beside,
    ) -> Result<()> {
        let before = state::read(&self.client).await?;
        let live = state::live_leases(&self.client).await?;
        let now = clock::now(&self.client).await?;
        let mut settled = Vec::new();
        let first_call = self.prepare(*first, first_act, &mut settled);
        let second_call = self.prepare(*second, second_act, &mut settled);
        let wants = [&first_call, &second_call].map(|call| match call {
            Call::SettleAndClaim(_, want) => *want,
            Call::Heartbeat | Call::Peek => None,
        });
        let statement = self.beside(beside);

        let client =
            if matches!(beside, Beside::EndLate { .. }) { &self.late } else { &self.client };
        let [one, two] = self.collectors.get_disjoint_mut([*first, *second])?;
        let (one, two, changed) =
            tokio::join!(ask(one, first_call), ask(two, second_call), apply(client, &statement));
        changed.context("what the application did")?;
        let answers = [(*first, one.context("the first")?), (*second, two.context("the second")?)];
        if let Beside::EndLate { commits } = beside
            && let Some(ids) = self.late_tokens.take()
        {
            self.known.extend(ids.into_iter().filter(|_| *commits));
        }

        let after = state::read(&self.client).await?;
        let leases = state::leases(&self.client).await?;
        for (batch, settlement) in settled {
            ensure!(!leases.contains(&batch.id), "a settled lease is still there");
            for (id, attempt) in handed_on(&batch, &settlement) {
                let log =
                    after.get(&id).map(|standing| standing.log.as_slice()).unwrap_or_default();
                let is_recorded = log.iter().any(|entry| {
                    u32::try_from(entry.attempt) == Ok(attempt) && entry.outcome == "sent"
                });
                ensure!(
                    is_recorded || !live.contains(&batch.id),
                    "token {id} was sent under a lease that had not lapsed, and the log is {log:?}"
                );
                self.sent.extend(is_recorded.then_some(id));
            }
        }
        for ((collector, answer), want) in answers.into_iter().zip(wants) {
            match answer {
                Answer::Given(batches) => {
                    if let Some(want) = want {
                        check_claim(want, &batches, now, &[&before, &after])?;
                    }
                    self.give(collector, batches);
                }
                Answer::Lost(lost) => self.lose(collector, &lost),
                Answer::Nothing => {}
            }
        }
        Ok(())
    }

    /// Turns what a collector is to do into a call,
    /// and records what the call settles of which batch.
    fn prepare(
        &mut self,
        collector: usize,
        act: &Act,
        settled: &mut Vec<(Batch, Settlement)>,
    ) -> Call {
        match act {
            Act::SettleAndClaim { settles, want } => {
                let mut settlements = Vec::new();
                if let Some((nth, outcomes)) = settles
                    && let Some(batch) = self.pick(collector, *nth)
                {
                    settlements.push(settlement(&batch, outcomes));
                    settled.push((batch, settlements[0].clone()));
                }
                Call::SettleAndClaim(settlements, *want)
            }
            Act::Release { nth } => {
                if let Some(batch) = self.pick(collector, *nth) {
                    self.collectors[collector].release(&[batch.id]);
                    self.forgive(&batch);
                }
                Call::SettleAndClaim(Vec::new(), None)
            }
            Act::Heartbeat => Call::Heartbeat,
            Act::Peek => Call::Peek,
        }
    }

    /// What somebody does beside the collectors.
    fn beside(&self, beside: &Beside) -> String {
        match beside {
            Beside::EndLate { commits } if self.late_tokens.is_some() => {
                if *commits { "COMMIT" } else { "ROLLBACK" }.to_owned()
            }
            Beside::SetStatus { account, status } => set_status(*account, status),
            Beside::Apply(work) => self.statement(work),
            Beside::Nothing | Beside::EndLate { .. } => String::new(),
        }
    }
}
