//! Nothing is lost and nothing doubled without a reason, whatever fails.
//!
//! Each test has 20,000 tokens or more and ends with all invariants of `mailroom_tests::history`. They mostly wait, for leases
//! and servers, so they run beside each other: `cargo test --test faults -- --test-threads 8`.

mod changes;
mod clocks;
mod connections;
mod killed;
mod late_commits;
mod readers;
mod senders;
mod servers;
mod stopping;

/// How many tokens each test has at least.
const TOKENS: usize = 20_000;
