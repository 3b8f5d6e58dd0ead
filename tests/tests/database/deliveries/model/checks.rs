//! What must hold after each step, and at the end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom::queue::ClaimRequest;

use super::super::state::{self, Standing};
use super::super::{LEASE, SETTINGS, clock, queue};
use super::Model;

impl Model<'_> {
    pub(super) async fn check(&self) -> Result<()> {
        let standings = state::read(&self.client).await?;
        let leases = state::leases(&self.client).await?;
        // The clock may have been set back since something was pruned.
        let now = clock::now(&self.client).await? + 60;
        for id in &self.known {
            let standing = standings.get(id).cloned().unwrap_or_default();
            check_place(&standing, now).with_context(|| format!("token {id}: {standing:?}"))?;
        }
        for id in self.known.iter().filter(|id| self.sent.contains(*id)) {
            let ended = standings[id].ended().map(|entry| entry.outcome.as_str());
            ensure!(ended == Some("sent"), "token {id} was sent, and its log says {ended:?}");
        }
        // A lease that a collector holds is there, or has lapsed; there is no other without a
        // collector that holds it.
        for (id, attempt) in &self.expected_entries {
            let standing = &standings[id];
            let is_logged =
                standing.log.iter().any(|entry| u32::try_from(entry.attempt) == Ok(*attempt));
            ensure!(
                is_logged || standing.places == ["leased"],
                "nothing says what became of attempt {attempt} of token {id}: \
                 {standing:?}, leases {leases:?}"
            );
        }
        Ok(())
    }

    /// Lets everything come to its end, and checks that it did.
    pub(super) async fn finish(mut self) -> Result<()> {
        if let Some(ids) = self.late_tokens.take() {
            self.late.batch_execute("COMMIT").await?;
            self.known.extend(ids);
        }
        if std::mem::take(&mut self.is_status_open) {
            self.status.batch_execute("COMMIT").await?;
        }
        // The others are gone. This one goes on with its low watermark; one that may be wrong is
        // forgotten, as a peek from the beginning would.
        self.collectors.truncate(1);
        self.held.truncate(1);
        if self.was_set_back {
            self.held[0].clear();
            self.client.batch_execute("SELECT setval('mailroom.low_watermark', 0)").await?;
            self.collectors[0] = queue(self.database).await?;
        }
        while !self.held[0].is_empty() {
            self.settle(0, 0, &[5]).await?;
        }
        for _ in 0..12 {
            clock::forward(&self.client, LEASE + Duration::from_secs(1)).await?;
            self.peek(0).await?;
            self.claim(
                0,
                ClaimRequest {
                    batches: 100,
                    limit: 2,
                    partial: true,
                    rescan: true,
                    spares_doubtful: false,
                },
            )
            .await?;
            while !self.held[0].is_empty() {
                self.settle(0, 0, &[5]).await?;
            }
            self.check().await?;
        }
        let now = clock::now(&self.client).await?;
        for (id, standing) in state::read(&self.client).await? {
            let is_waiting_for_its_account = standing.places == ["deferred"]
                && standing.row.as_ref().is_some_and(|row| !row.is_eligible);
            let is_done = standing.places.is_empty()
                && (standing.ended().is_some() || standing.is_over_and_dead(now));
            let is_dead = standing.places == ["dead"]
                && standing.log.last().is_some_and(|entry| entry.outcome == "dead");
            ensure!(
                is_waiting_for_its_account || is_done || is_dead,
                "token {id} is lost: {standing:?}"
            );
        }
        Ok(())
    }
}

/// What holds of every token at every moment.
fn check_place(standing: &Standing, now: i64) -> Result<()> {
    let ended = standing.ended();
    match standing.places.as_slice() {
        [] => {
            ensure!(
                ended.is_some() || standing.is_over_and_dead(now),
                "it is nowhere, and nothing says why"
            );
        }
        [place] => {
            ensure!(ended.is_none(), "it has ended and is {place}");
            ensure!(
                place != "dead" || standing.log.last().is_some_and(|entry| entry.outcome == "dead"),
                "it is dead, and nothing says why"
            );
        }
        places => anyhow::bail!("it is in {places:?}"),
    }
    let mut last = 0;
    for entry in &standing.log {
        // What expires in doubt is dead without another attempt.
        let is_handover = !["expired", "cancelled", "dead"].contains(&entry.outcome.as_str());
        ensure!(
            if is_handover { entry.attempt > last } else { entry.attempt >= last },
            "its attempts do not grow"
        );
        last = entry.attempt;
        match (entry.outcome.as_str(), &standing.row) {
            ("expired", Some(row)) => {
                ensure!(
                    row.expires_at - entry.at < 30,
                    "it had {} s left",
                    row.expires_at - entry.at
                );
            }
            ("cancelled", Some(row)) => ensure!(row.is_void, "it was cancelled for no reason"),
            _ => {}
        }
    }
    // What may have been delivered is listed as that, and not called expired; each doubt is
    // counted, wherever the token went.
    let doubts = standing.log.iter().filter(|entry| entry.outcome == "in_doubt").count();
    let last = standing.log.last().map(|entry| entry.outcome.as_str());
    ensure!(doubts == 0 || last != Some("expired"), "it is called expired after {doubts} doubts");
    ensure!(
        standing.places.is_empty() || standing.doubts >= doubts,
        "it was in doubt {doubts} times and has {}",
        standing.doubts
    );
    let refusals = standing.log.iter().rev().take_while(|entry| entry.outcome != "dead");
    let refusals = refusals.filter(|entry| entry.outcome == "retry").count();
    ensure!(refusals < SETTINGS.max_attempts, "it was refused {refusals} times and is not dead");
    Ok(())
}
