//! What was read of the queue and not claimed yet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::page::Page;
use super::remembered::Remembered;
use crate::queue::Token;

/// Tokens that were read longer ago are read again before they go out: they may be consumed or expired by now.
const FRESH: Duration = Duration::from_secs(1);

/// Tokens that were read and not claimed yet, and how far reading came.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Eligible tokens: first those that became so late, then those beyond `passed` in id order.
    tokens: VecDeque<Token>,
    /// Everything up to here was claimed, is remembered, or can never be sent.
    passed: i64,
    /// Everything up to here was read.
    read: i64,
    /// When the oldest of `tokens` was read.
    since: Option<Instant>,
    /// Unexpired, unconsumed tokens up to `read` with the wrong account status.
    remembered: Remembered,
}

impl Ahead {
    /// The number of tokens that were read and not claimed.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Where reading goes on.
    pub(super) fn read_through(&self) -> i64 {
        self.read
    }

    /// Nothing up to here needs to be read again, but for what is remembered.
    pub(super) fn passed(&self) -> i64 {
        self.passed
    }

    /// The next tokens after `id` whose accounts had the wrong status, at most `count`.
    pub(super) fn remembered_after(&self, id: i64, count: usize) -> Vec<i64> {
        self.remembered.after(id, count)
    }

    /// Whether remembered tokens must be looked at before anything is claimed: some may be eligible.
    pub(super) fn is_look_due(&self) -> bool {
        self.remembered.is_look_due()
    }

    /// Whether some of the tokens were read too long ago to be sent.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.duration_since(since) > FRESH)
    }

    /// The number of tokens that reading on from [`passed`](Self::passed) would not meet.
    pub(super) fn late_len(&self) -> usize {
        self.tokens.partition_point(|token| token.id <= self.passed)
    }

    /// Reads on after `id`.
    pub(super) fn start_at(&mut self, id: i64) {
        self.forget_tokens();
        self.passed = id;
        self.read_back_to(id);
    }

    /// Looks at these tokens before anything is claimed: they have been passed, and may be eligible.
    pub(super) fn put_back(&mut self, ids: impl IntoIterator<Item = i64>) {
        self.remembered.put_back(ids);
    }

    /// Remembers nothing up to `id`.
    pub(super) fn forget_through(&mut self, id: i64) {
        self.remembered.forget_through(id);
    }

    /// Takes what a page brought.
    pub(super) fn add(&mut self, page: Page, now: Instant) {
        self.read = page.through;
        self.remembered.insert(page.ineligible);
        if !page.tokens.is_empty() {
            self.since.get_or_insert(now);
        }
        self.tokens.extend(page.tokens);
        self.pass();
    }

    /// Takes what a second look at some remembered tokens brought.
    pub(super) fn recall(&mut self, page: Page, looked_at: &[i64], now: Instant) {
        self.remembered.remove(looked_at);
        self.remembered.insert(page.ineligible);
        if !page.tokens.is_empty() {
            self.since.get_or_insert(now);
        }
        let beyond = self.tokens.split_off(self.late_len());
        self.tokens.extend(page.tokens);
        self.tokens.extend(beyond);
    }

    /// Some remembered tokens were looked at, or all.
    pub(super) fn looked(&mut self, at_all: bool) {
        self.remembered.looked(at_all);
    }

    /// Takes `limit` tokens, or fewer if a partial batch is wanted.
    pub(super) fn cut(&mut self, limit: usize, partial: bool) -> Option<Vec<Token>> {
        let count = self.tokens.len().min(limit);
        if count == 0 || (count < limit && !partial) {
            return None;
        }
        let tokens: Vec<_> = self.tokens.drain(..count).collect();
        self.passed = tokens.iter().map(|token| token.id).fold(self.passed, i64::max);
        if self.tokens.is_empty() {
            self.since = None;
        }
        self.pass();
        Some(tokens)
    }

    /// Forgets the tokens that were read and not claimed; they are read again.
    pub(super) fn forget_tokens(&mut self) {
        let late = self.tokens.drain(..).map(|token| token.id).filter(|id| *id <= self.passed);
        self.remembered.put_back(late);
        self.since = None;
        self.read_back_to(self.passed);
    }

    fn read_back_to(&mut self, id: i64) {
        self.read = id;
        // What lies beyond is met again.
        self.remembered.forget_after(id);
    }

    /// Once every token that was read is claimed, nothing up to there needs to be read again.
    fn pass(&mut self) {
        if self.tokens.back().is_none_or(|token| token.id <= self.passed) {
            self.passed = self.read;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailroom_verifier_core::Action;

    fn token(id: i64) -> Token {
        Token {
            id,
            attempt: 1,
            action: Action::Activate,
            email: Vec::new(),
            login: Vec::new(),
            secret: Vec::new(),
            code: None,
            expires_at: 0,
        }
    }

    fn page(through: i64, tokens: &[i64], ineligible: &[i64]) -> Page {
        let tokens = tokens.iter().map(|id| token(*id)).collect();
        Page { tokens, ineligible: ineligible.to_vec(), through, rows: 0 }
    }

    fn remembered(ahead: &Ahead) -> Vec<i64> {
        ahead.remembered_after(i64::MIN, usize::MAX)
    }

    fn cut(ahead: &mut Ahead, limit: usize) -> Vec<i64> {
        ahead.cut(limit, true).unwrap_or_default().iter().map(|token| token.id).collect()
    }

    #[test]
    fn rows_that_cannot_be_sent_are_passed_for_good() {
        let mut ahead = Ahead::default();
        ahead.start_at(10);
        ahead.add(page(50, &[], &[]), Instant::now());
        ahead.forget_tokens();
        assert_eq!((ahead.passed(), ahead.read_through()), (50, 50));
    }

    #[test]
    fn tokens_that_were_not_claimed_are_read_again() {
        let mut ahead = Ahead::default();
        ahead.add(page(50, &[20, 30, 40], &[]), Instant::now());
        assert_eq!(cut(&mut ahead, 1), [20]);
        assert_eq!((ahead.passed(), ahead.read_through()), (20, 50));
        ahead.forget_tokens();
        assert_eq!((ahead.len(), ahead.read_through()), (0, 20));
    }

    #[test]
    fn a_claim_of_all_passes_the_rows_behind_it() {
        let mut ahead = Ahead::default();
        ahead.add(page(50, &[20, 30], &[]), Instant::now());
        assert_eq!(cut(&mut ahead, 2), [20, 30]);
        assert_eq!(ahead.passed(), 50);
    }

    #[test]
    fn a_batch_is_cut_only_if_it_is_full_or_may_be_partial() {
        let mut ahead = Ahead::default();
        ahead.add(page(50, &[20, 30], &[]), Instant::now());
        assert_eq!(ahead.cut(3, false), None);
        assert_eq!(ahead.cut(3, true).map(|tokens| tokens.len()), Some(2));
        assert_eq!(ahead.cut(3, true), None);
    }

    #[test]
    fn a_remembered_token_goes_first_once_it_is_eligible() {
        let mut ahead = Ahead::default();
        ahead.add(page(50, &[], &[20, 30]), Instant::now());
        ahead.add(page(60, &[55], &[]), Instant::now());
        assert_eq!(remembered(&ahead), [20, 30]);
        ahead.recall(page(50, &[20], &[30]), &[20, 30], Instant::now());
        assert_eq!(ahead.late_len(), 1);
        assert_eq!(remembered(&ahead), [30]);
        assert_eq!(cut(&mut ahead, 2), [20, 55]);
        assert_eq!(ahead.late_len(), 0);
    }

    #[test]
    fn parts_of_what_is_remembered_keep_their_order_before_the_tokens_beyond() {
        let mut ahead = Ahead::default();
        ahead.add(page(50, &[], &[20, 30, 40]), Instant::now());
        ahead.add(page(60, &[55], &[]), Instant::now());
        ahead.recall(page(50, &[20], &[30]), &[20, 30], Instant::now());
        ahead.recall(page(50, &[40], &[]), &[40], Instant::now());
        assert_eq!(cut(&mut ahead, 4), [20, 40, 55]);
        assert_eq!(remembered(&ahead), [30]);
    }

    #[test]
    fn a_late_token_that_was_not_claimed_is_remembered_again() {
        let mut ahead = Ahead::default();
        ahead.add(page(50, &[], &[20]), Instant::now());
        ahead.recall(page(50, &[20], &[]), &[20], Instant::now());
        assert_eq!(remembered(&ahead), [0_i64; 0]);
        assert!(!ahead.is_look_due());
        ahead.forget_tokens();
        assert_eq!(remembered(&ahead), [20]);
        assert!(ahead.is_look_due());
    }

    #[test]
    fn what_is_read_again_need_not_be_remembered() {
        let mut ahead = Ahead::default();
        ahead.add(page(50, &[], &[20, 40]), Instant::now());
        ahead.start_at(30);
        assert_eq!(remembered(&ahead), [20]);
        ahead.add(page(50, &[], &[40]), Instant::now());
        assert_eq!(remembered(&ahead), [20, 40]);
    }

    #[test]
    fn tokens_are_stale_a_second_after_the_first_was_read() {
        let start = Instant::now();
        let mut ahead = Ahead::default();
        assert!(!ahead.is_stale(start + 2 * FRESH));
        ahead.add(page(50, &[20], &[]), start);
        ahead.add(page(60, &[55], &[]), start + FRESH);
        assert!(!ahead.is_stale(start + FRESH));
        assert!(ahead.is_stale(start + FRESH + Duration::from_millis(1)));
        cut(&mut ahead, 2);
        assert!(!ahead.is_stale(start + 2 * FRESH));
    }
}
