//! Nothing is lost and nothing doubled without a reason, whatever fails.
//!
//! Each test has 20,000 tokens or more with `cargo xtask test --full`; otherwise about a tenth of
//! the tokens and of the faults. It ends with all invariants of `mailroom_tests::history`. The
//! tests mostly wait, for leases and servers, so they run beside each other:
//! `cargo test --test faults -- --test-threads 8`.

mod brokers;
mod changes;
mod clocks;
mod connections;
mod failover;
mod full_disk;
mod killed;
mod late_commits;
mod mailroom_send;
mod patroni;
mod readers;
mod rolling;
mod senders;
mod servers;
mod stopping;
