//! The mails that wait for a provider, in the order in which they came, except that those to a limited domain wait for its turns.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::provider::Sealed;
use crate::rate::Domains;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// How many mails came.
    count: u64,
    /// Mails with their numbers.
    unlimited: VecDeque<(u64, Arc<Sealed>)>,
    limited: BTreeMap<String, VecDeque<(u64, Arc<Sealed>)>>,
}

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

    /// Adds a mail, to a limited domain if one is given.
    pub(crate) fn push(&mut self, sealed: Arc<Sealed>, domain: Option<String>) {
        self.count += 1;
        let queue = match domain {
            Some(domain) => self.limited.entry(domain).or_default(),
            None => &mut self.unlimited,
        };
        queue.push_back((self.count, sealed));
    }

    /// Takes the first mail that may go out now.
    ///
    /// # Errors
    /// How long to wait for one; nothing if there is none at all.
    pub(crate) fn pop(&mut self, domains: &Domains, now: Instant) -> Result<Arc<Sealed>, Option<Duration>> {
        let numbers = self.limited.iter().filter_map(|(domain, queue)| Some((queue.front()?.0, domain)));
        let mut waits = Vec::new();
        let mut ready: Vec<(u64, &String)> = Vec::new();
        for (number, domain) in numbers {
            match domains.wait(domain, 0, now) {
                Duration::ZERO => ready.push((number, domain)),
                wait => waits.push(wait),
            }
        }
        let limited = ready.into_iter().min().map(|(number, domain)| (number, domain.clone()));
        let unlimited = self.unlimited.front().map(|(number, _)| *number);
        if let Some((number, domain)) = limited
            && unlimited.is_none_or(|other| number < other)
        {
            // Another provider's thread may have been faster.
            domains.take(&domain, now).map_err(Some)?;
            let queue = self.limited.get_mut(&domain).ok_or(None)?;
            let mail = queue.pop_front();
            if queue.is_empty() {
                self.limited.remove(&domain);
            }
            return mail.map(|(_, sealed)| sealed).ok_or(None);
        }
        self.unlimited.pop_front().map(|(_, sealed)| sealed).ok_or(waits.into_iter().min())
    }

    /// Takes everything.
    pub(crate) fn drain(&mut self) -> Vec<Arc<Sealed>> {
        let limited = std::mem::take(&mut self.limited).into_values().flatten();
        self.unlimited.drain(..).chain(limited).map(|(_, sealed)| sealed).collect()
    }
}
