//! What can happen in a state, and what comes of it.

use crate::collector::{Collector, Verdict, Work};
use crate::database::Ended;
use crate::model::{Action, Call, Protocol, State, Statement};
use crate::{Batch, Mutant};

fn bit(batch: Batch) -> u16 {
    1 << batch
}

/// Everything that can happen next.
pub(crate) fn possible(protocol: &Protocol, state: &State, actions: &mut Vec<Action>) {
    let left = &state.left;
    let database = &state.primary;
    for (index, statement) in state.statements.iter().enumerate() {
        of_statement(state, index, statement, actions);
    }
    for (index, collector) in state.collectors.iter().enumerate() {
        of_collector(protocol, state, index, collector, actions);
    }
    for lease in &database.leases {
        let is_held = state.collectors.iter().any(|collector| collector.holds(lease.batch));
        if !is_held || left.suspensions > 0 {
            actions.push(Action::Lapse(lease.batch));
        }
    }
    for (token, row) in database.rows.iter().enumerate() {
        let fate = &state.fates[token];
        let is_dead = matches!(row.ended, Some(Ended::Dead | Ended::DeadInDoubt));
        // Who has no mail has no link.
        let may_press = left.presses > 0 && fate.mails > 0 && !state.world.is_late;
        let reads_first = protocol.mutant == Some(Mutant::ReadsThenRedeems);
        let is_open = !row.is_used && !row.is_cancelled;
        let possible = [
            (!row.is_committed, Action::Commit(token)),
            (row.is_committed && left.cancels > 0 && is_open, Action::Cancel(token)),
            (may_press && !reads_first || fate.readers > 0, Action::Redeem(token)),
            (may_press && reads_first && is_open, Action::Read(token)),
            (is_dead && left.retries > 0, Action::Retry(token)),
        ];
        actions.extend(possible.into_iter().filter(|(is, _)| *is).map(|(_, action)| action));
    }
    let possible = [
        (left.expiries > 0, Action::Expire),
        (left.failovers > 0 && state.standby != *database, Action::Replicate),
        (left.failovers > 0, Action::FailOver),
    ];
    actions.extend(possible.into_iter().filter(|(is, _)| *is).map(|(_, action)| action));
}

fn of_statement(state: &State, index: usize, statement: &Statement, actions: &mut Vec<Action>) {
    let tokens: Vec<Option<usize>> = match statement.call {
        Call::Claim(_) => {
            let claimable = (0..state.primary.rows.len())
                .filter(|token| state.primary.is_claimable(*token))
                .map(Some);
            let claimable: Vec<_> = claimable.collect();
            if claimable.is_empty() { vec![None] } else { claimable }
        }
        _ => vec![None],
    };
    let may_break = !statement.is_abandoned && state.left.breaks > 0;
    for token in tokens {
        let executed = |is_answered| Action::Execute { statement: index, token, is_answered };
        actions.push(executed(!statement.is_abandoned));
        if may_break {
            actions.push(executed(false));
        }
    }
    if may_break {
        actions.push(Action::Break(index));
    }
    if statement.is_abandoned {
        actions.push(Action::Vanish(index));
    }
}

fn of_collector(
    protocol: &Protocol,
    state: &State,
    index: usize,
    collector: &Collector,
    actions: &mut Vec<Action>,
) {
    let left = &state.left;
    let waits = state.statements.iter().any(|statement| {
        statement.collector == index
            && !statement.is_abandoned
            && !matches!(statement.call, Call::Claim(_))
    });
    let is_unsaid = collector.settling.is_some() || collector.releasing.is_some();
    let releases_begun = protocol.mutant == Some(Mutant::ReleasesWhatWasBegun);
    let may_claim =
        left.claims > 0 && (0..state.fates.len()).any(|t| state.primary.is_claimable(t));
    let work = collector.work.as_ref();
    // A verdict has its place once the one before is recorded.
    let can_say = collector.settling.is_none();
    let is_begun = work.is_some_and(|work| work.is_begun);
    let is_accepted = work.is_some_and(|work| work.is_accepted);
    let is_fresh = work.is_some() && !is_begun;
    let possible = [
        (collector.is_idle() && may_claim, Action::Claim(index)),
        (is_unsaid && !waits, Action::Repeat(index)),
        (is_fresh && can_say, Action::Begin(index)),
        (is_begun && !is_accepted, Action::Accept(index)),
        (is_accepted && can_say, Action::Answer(index)),
        (is_begun && can_say && left.lost_answers > 0, Action::LoseAnswer(index)),
        (is_begun && !is_accepted && can_say && left.refusals > 0, Action::Refuse(index)),
        (
            (is_fresh || releases_begun && is_begun) && collector.releasing.is_none(),
            Action::GiveBack(index),
        ),
        (work.is_some() && can_say && left.crashes > 0, Action::Crash(index)),
        (left.kills > 0 && collector.batches().next().is_some(), Action::Kill(index)),
    ];
    actions.extend(possible.into_iter().filter(|(is, _)| *is).map(|(_, action)| action));
}

/// What comes of an action.
pub(crate) fn take(protocol: &Protocol, state: &mut State, action: Action) {
    let mutant = protocol.mutant;
    match action {
        Action::Commit(token) => state.primary.commit(token),
        Action::Claim(index) => claim(state, index, mutant),
        Action::Execute { statement, token, is_answered } => {
            execute(state, statement, token, is_answered, mutant);
        }
        Action::Break(statement) => {
            state.left.breaks -= 1;
            abandon(state, statement, mutant);
        }
        Action::Vanish(statement) => drop(state.statements.remove(statement)),
        Action::Repeat(index) => repeat(state, index),
        Action::Lapse(batch) => lapse(state, batch, mutant),
        Action::Expire => {
            state.left.expiries -= 1;
            state.world.is_late = true;
        }
        Action::Cancel(token) => {
            state.left.cancels -= 1;
            state.primary.rows[token].is_cancelled = true;
        }
        Action::Read(token) => {
            state.left.presses -= 1;
            state.fates[token].readers += 1;
        }
        Action::Redeem(token) => redeem(state, token),
        Action::Retry(token) => {
            state.left.retries -= 1;
            state.primary.retry(token);
        }
        Action::Replicate => state.standby = state.primary.clone(),
        Action::FailOver => fail_over(state, mutant),
        Action::Kill(index) => kill(state, index),
        Action::Begin(index)
        | Action::Accept(index)
        | Action::Answer(index)
        | Action::LoseAnswer(index)
        | Action::Refuse(index)
        | Action::GiveBack(index)
        | Action::Crash(index) => send(state, index, action, mutant),
    }
}

fn claim(state: &mut State, index: usize, mutant: Option<Mutant>) {
    state.left.claims -= 1;
    let batch = if mutant == Some(Mutant::NumbersBatches) {
        state.primary.numbered += 1;
        state.primary.numbered
    } else {
        state.world.batches += 1;
        state.world.batches
    };
    state.collectors[index].claiming = Some(batch);
    let call = Call::Claim(batch);
    state.statements.push(Statement { collector: index, is_abandoned: false, call });
}

fn execute(
    state: &mut State,
    index: usize,
    token: Option<usize>,
    is_answered: bool,
    mutant: Option<Mutant>,
) {
    let statement = state.statements[index].clone();
    let collector = statement.collector;
    let mut work = None;
    match statement.call {
        Call::Claim(batch) => {
            if let Some(token) = token
                && let Ok(lease) = state.primary.claim(token, batch, state.world.is_late, mutant)
            {
                let doubts = state.primary.rows[token].doubts;
                work = Some(Work { batch: lease.batch, token, doubts, ..Work::default() });
            }
        }
        Call::Release(batch) => state.primary.release(batch),
        Call::Settle(batch, token, verdict) => {
            state.primary.settle((batch, token), verdict, mutant);
        }
    }
    if !is_answered {
        if statement.is_abandoned {
            state.statements.remove(index);
        } else {
            state.left.breaks -= 1;
            abandon(state, index, mutant);
            state.statements.retain(|other| !other.is_abandoned || other.call != statement.call);
        }
        return;
    }
    state.statements.remove(index);
    let collector = &mut state.collectors[collector];
    match statement.call {
        Call::Claim(_) => {
            collector.claiming = None;
            collector.work = work;
        }
        Call::Release(_) => collector.releasing = None,
        Call::Settle(..) => collector.settling = None,
    }
}

/// The connection ends: nobody knows whether the statement is executed.
fn abandon(state: &mut State, index: usize, mutant: Option<Mutant>) {
    let statement = &mut state.statements[index];
    statement.is_abandoned = true;
    let collector = &mut state.collectors[statement.collector];
    match statement.call {
        // Its id was made here, so it can be given back unseen.
        Call::Claim(batch) => {
            collector.claiming = None;
            collector.releasing = Some(batch);
        }
        Call::Settle(..) if mutant == Some(Mutant::ForgetsSettlement) => collector.settling = None,
        Call::Release(_) | Call::Settle(..) => {}
    }
}

fn repeat(state: &mut State, index: usize) {
    let collector = &state.collectors[index];
    let settle = collector.settling.map(|(batch, token, is)| Call::Settle(batch, token, is));
    let calls = settle.into_iter().chain(collector.releasing.map(Call::Release));
    let calls = calls.map(|call| Statement { collector: index, is_abandoned: false, call });
    state.statements.extend(calls);
}

fn lapse(state: &mut State, batch: Batch, mutant: Option<Mutant>) {
    let token = state.primary.leases.iter().find(|lease| lease.batch == batch).map(|it| it.token);
    let is_held = state.collectors.iter().any(|collector| collector.holds(batch));
    // It will begin with it, unless it has.
    let is_work = |collector: &Collector| {
        collector.claiming == Some(batch)
            || collector.work.as_ref().is_some_and(|work| work.batch == batch)
    };
    if is_held {
        state.left.suspensions -= 1;
    }
    if let Some(token) = token
        && (is_held || state.world.orphans & bit(batch) != 0)
    {
        let fate = &mut state.fates[token];
        let is_coming = state.collectors.iter().any(is_work);
        fate.excused |= if is_coming { bit(batch) } else { fate.arriving & bit(batch) };
    }
    state.primary.lapse(batch, mutant);
}

fn redeem(state: &mut State, token: usize) {
    let fate = &mut state.fates[token];
    if fate.readers > 0 {
        // It goes by what it has read.
        fate.readers -= 1;
        fate.uses += 1;
        state.primary.rows[token].is_used = true;
        return;
    }
    state.left.presses -= 1;
    if state.primary.redeem(token) {
        fate.uses += 1;
    }
}

fn fail_over(state: &mut State, mutant: Option<Mutant>) {
    state.left.failovers -= 1;
    let old = std::mem::replace(&mut state.primary, state.standby.clone());
    let leases = |database: &crate::Database, token| -> Vec<_> {
        database.leases.iter().filter(|lease| lease.token == token).cloned().collect()
    };
    for (token, fate) in state.fates.iter_mut().enumerate() {
        let (before, after) = (&old.rows[token], &state.primary.rows[token]);
        if before != after || leases(&old, token) != leases(&state.primary, token) {
            fate.excused |= fate.arriving;
            // What was claimed of the old server is sent all the same.
            let works = state.collectors.iter().filter_map(|collector| collector.work.as_ref());
            for work in works.filter(|work| work.token == token) {
                fate.excused |= bit(work.batch);
            }
        }
        fate.undone_uses += u8::from(before.is_used && !after.is_used);
    }
    // What was on its way is lost with the old server, and so are the connections.
    for index in 0..state.statements.len() {
        if !state.statements[index].is_abandoned {
            abandon(state, index, mutant);
        }
    }
    state.statements.clear();
}

fn kill(state: &mut State, index: usize) {
    state.left.kills -= 1;
    let collector = &mut state.collectors[index];
    for batch in collector.batches() {
        state.world.orphans |= bit(batch);
    }
    if let Some(work) = &collector.work
        && !work.is_accepted
    {
        state.fates[work.token].arriving &= !bit(work.batch);
    }
    *collector =
        Collector { journal: std::mem::take(&mut collector.journal), ..Collector::default() };
    for statement in &mut state.statements {
        statement.is_abandoned |= statement.collector == index;
    }
}

/// What a sender does, and hears of its provider.
fn send(state: &mut State, index: usize, action: Action, mutant: Option<Mutant>) {
    let collector = &mut state.collectors[index];
    let Some(work) = &mut collector.work else { return };
    let (batch, token) = (work.batch, work.token);
    let fate = &mut state.fates[token];
    let journal = &mut collector.journal[token];
    let records_before = mutant != Some(Mutant::RecordsTooLate);
    match action {
        Action::Begin(_) => {
            if journal.is_sent {
                collector.decide(Verdict::Sent);
            } else if journal.begun > work.doubts {
                collector.decide(Verdict::InDoubt);
            } else {
                work.is_begun = true;
                fate.arriving |= bit(batch);
                if records_before {
                    journal.begun = work.doubts + 1;
                }
                if mutant == Some(Mutant::SettlesBeforeSending) {
                    collector.settling = Some((batch, token, Verdict::Sent));
                }
            }
        }
        Action::Accept(_) => {
            work.is_accepted = true;
            fate.mails += 1;
        }
        Action::Answer(_) => {
            journal.is_sent = true;
            collector.decide(Verdict::Sent);
        }
        Action::LoseAnswer(_) => {
            state.left.lost_answers -= 1;
            journal.begun = work.doubts + 1;
            if work.is_accepted {
                fate.excused |= bit(batch);
            } else {
                fate.arriving &= !bit(batch);
            }
            collector.decide(Verdict::InDoubt);
        }
        Action::Refuse(_) => {
            state.left.refusals -= 1;
            fate.arriving &= !bit(batch);
            journal.begun = work.doubts;
            collector.decide(Verdict::Retry);
        }
        Action::GiveBack(_) => {
            collector.releasing = Some(batch);
            collector.work = None;
        }
        _ => {
            state.left.crashes -= 1;
            let verdict = if work.is_begun { Verdict::Crashed } else { Verdict::Unanswered };
            if work.is_accepted {
                fate.excused |= bit(batch);
            } else {
                fate.arriving &= !bit(batch);
            }
            collector.decide(verdict);
        }
    }
}
