//! What must hold in every state.

use stateright::Model;

use crate::database::Ended;
use crate::model::{Protocol, State};

/// Whether a promise holds in a state.
pub type Promise = fn(&Protocol, &State) -> bool;

/// All of them, each by what it says.
pub const PROMISES: [(&str, Promise); 7] = [
    ("a committed token is in one place", in_one_place),
    ("what is recorded as sent was accepted", sent_was_accepted),
    ("a mail comes twice only for a known reason", twice_for_a_reason),
    ("a doubt is repeated twice at most", doubts_end),
    ("what may have been delivered is not called expired", expired_is_unsent),
    ("a link is used once", used_once),
    ("nothing stands still before every token has ended", all_end),
];

fn in_one_place(_: &Protocol, state: &State) -> bool {
    let leases = |token| state.primary.leases.iter().filter(|lease| lease.token == token).count();
    state.primary.rows.iter().enumerate().all(|(token, row)| {
        let places = usize::from(row.queued) + leases(token) + usize::from(row.ended.is_some());
        places == usize::from(row.is_committed)
    })
}

fn sent_was_accepted(_: &Protocol, state: &State) -> bool {
    let tokens = state.primary.rows.iter().zip(&state.fates);
    tokens.into_iter().all(|(row, fate)| row.ended != Some(Ended::Sent) || fate.mails > 0)
}

fn twice_for_a_reason(_: &Protocol, state: &State) -> bool {
    state.fates.iter().all(|fate| u32::from(fate.mails) <= 1 + fate.excused.count_ones())
}

/// With one journal that holds for mails, too, whoever is killed: unless an operator puts back what
/// was given up, or a failover brings back what the database had counted.
fn doubts_end(protocol: &Protocol, state: &State) -> bool {
    let limits = protocol.scenario.limits;
    let most = 3 + limits.retries - state.left.retries;
    let is_one_journal = protocol.scenario.collectors == 1 && limits.failovers == 0;
    state.primary.rows.iter().all(|row| row.doubts <= most)
        && (!is_one_journal || state.fates.iter().all(|fate| fate.mails <= most))
}

fn expired_is_unsent(_: &Protocol, state: &State) -> bool {
    state.primary.rows.iter().all(|row| row.ended != Some(Ended::Expired) || row.doubts == 0)
}

fn used_once(_: &Protocol, state: &State) -> bool {
    state.fates.iter().all(|fate| fate.uses <= 1 + fate.undone_uses)
}

/// Where claims are left: what is in the queue then waits for nobody else.
fn all_end(protocol: &Protocol, state: &State) -> bool {
    let has_ended = state.primary.rows.iter().all(|row| !row.is_committed || row.ended.is_some());
    let mut actions = Vec::new();
    if has_ended || state.left.claims == 0 {
        return true;
    }
    protocol.actions(state, &mut actions);
    !actions.is_empty()
}
