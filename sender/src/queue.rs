//! The mails that wait for a provider, in the order in which they came, except that those to a
//! limited domain wait for its turns.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::provider::PreparedMail;
use crate::rate::Domains;

/// A mail that waits.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) prepared: Arc<PreparedMail>,
    /// What it is for.
    pub(crate) action: String,
    /// How many of its attempts the database counts as in doubt.
    pub(crate) known: u32,
    /// Whether the provider may have accepted it and would accept it again.
    pub(crate) is_doubtful: bool,
    /// Since when it waits, if it may be given back for waiting too long.
    pub(crate) returnable_since: Option<Instant>,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// How many mails came.
    count: u64,
    /// Mails with their numbers.
    unlimited: Numbered,
    limited: BTreeMap<String, Numbered>,
}

type Numbered = VecDeque<(u64, Queued)>;

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.unlimited.len() + self.limited.values().map(VecDeque::len).sum::<usize>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unlimited.is_empty() && self.limited.is_empty()
    }

    /// How many wait for turns of a domain.
    pub(crate) fn len_of(&self, domain: &str) -> usize {
        self.limited.get(domain).map_or(0, VecDeque::len)
    }

    /// Whether there are mails, all of them in doubt.
    pub(crate) fn is_all_doubtful(&self) -> bool {
        let mut mails = self.limited.values().chain([&self.unlimited]).flatten();
        !self.is_empty() && mails.all(|(_, mail)| mail.is_doubtful)
    }

    /// Adds a mail, to a limited domain if one is given.
    pub(crate) fn push(&mut self, mail: Queued, domain: Option<String>) {
        self.count += 1;
        let queue = match domain {
            Some(domain) => self.limited.entry(domain).or_default(),
            None => &mut self.unlimited,
        };
        queue.push_back((self.count, mail));
    }

    /// Takes the first mail that may go out now, or the one that came last.
    ///
    /// # Errors
    /// How long to wait for a mail. `None` if there is no mail at all.
    pub(crate) fn pop(
        &mut self,
        domains: &Domains,
        may_go: &dyn Fn(&Queued) -> bool,
        is_newest: bool,
        now: Instant,
    ) -> Result<Queued, Option<Duration>> {
        // The number and the place of the first or the last mail of a queue that may be taken.
        let first = |queue: &Numbered| {
            let may_go = |(_, mail): &(u64, Queued)| may_go(mail);
            let mut mails = queue.iter();
            let place = if is_newest { mails.rposition(may_go) } else { mails.position(may_go) }?;
            Some((queue[place].0, place))
        };
        let firsts =
            self.limited.iter().filter_map(|(domain, queue)| Some((first(queue)?, domain)));
        let mut waits = Vec::new();
        let mut ready = Vec::new();
        for (found, domain) in firsts {
            match domains.wait(domain, 0, now) {
                Duration::ZERO => ready.push((found, domain)),
                wait => waits.push(wait),
            }
        }
        let limited = if is_newest { ready.into_iter().max() } else { ready.into_iter().min() };
        let limited = limited.map(|(found, domain)| (found, domain.clone()));
        let unlimited = first(&self.unlimited);
        if let Some(((number, place), domain)) = limited
            && unlimited.is_none_or(|(other, _)| (number < other) != is_newest)
        {
            // Another provider's thread may have been faster.
            domains.take(&domain, now).map_err(Some)?;
            let queue = self.limited.get_mut(&domain).ok_or(None)?;
            let mail = queue.remove(place);
            if queue.is_empty() {
                self.limited.remove(&domain);
            }
            return mail.map(|(_, mail)| mail).ok_or(None);
        }
        let mail = unlimited.and_then(|(_, place)| self.unlimited.remove(place));
        mail.map(|(_, mail)| mail).ok_or(waits.into_iter().min())
    }

    /// How many mails are of a kind.
    pub(crate) fn count_if(&self, is_wanted: impl Fn(&Queued) -> bool) -> usize {
        self.mails().filter(|mail| is_wanted(mail)).count()
    }

    /// All mails, in no order.
    pub(crate) fn mails(&self) -> impl Iterator<Item = &Queued> {
        self.limited.values().chain([&self.unlimited]).flatten().map(|(_, mail)| mail)
    }

    /// Takes the mails in doubt.
    pub(crate) fn drain_doubtful(&mut self) -> Vec<Queued> {
        self.drain_if(|_, mail| mail.is_doubtful)
    }

    /// Takes the mails that may be given back and have waited since before this, but for the first
    /// ones, and the first ones that are preferred.
    pub(crate) fn drain_waiting_since(
        &mut self,
        before: Instant,
        kept: usize,
        is_preferred: &dyn Fn(&Queued) -> bool,
    ) -> Vec<Queued> {
        let number = |(number, _): &(u64, Queued)| *number;
        let first = self.unlimited.get(kept).map_or(u64::MAX, number);
        let mut preferred = self.unlimited.iter().filter(|(_, mail)| is_preferred(mail));
        let first_preferred = preferred.nth(kept).map_or(u64::MAX, number);
        self.drain_if(|number, mail| {
            number >= first
                && mail.returnable_since.is_some_and(|since| since <= before)
                && (number >= first_preferred || !is_preferred(mail))
        })
    }

    /// Takes the mails of a kind, by their numbers and themselves.
    pub(crate) fn drain_if(
        &mut self,
        mut is_wanted: impl FnMut(u64, &Queued) -> bool,
    ) -> Vec<Queued> {
        let mut found = Vec::new();
        for queue in self.limited.values_mut().chain([&mut self.unlimited]) {
            let (wanted, others) = std::mem::take(queue)
                .into_iter()
                .partition(|(number, mail)| is_wanted(*number, mail));
            *queue = others;
            let wanted: Numbered = wanted;
            found.extend(wanted.into_iter().map(|(_, mail)| mail));
        }
        self.limited.retain(|_, queue| !queue.is_empty());
        found
    }

    /// Takes everything.
    pub(crate) fn drain(&mut self) -> Vec<Queued> {
        let limited = std::mem::take(&mut self.limited).into_values().flatten();
        self.unlimited.drain(..).chain(limited).map(|(_, mail)| mail).collect()
    }
}
