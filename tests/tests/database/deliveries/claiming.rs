//! What a claim takes, in which order, and what it clears away.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use mailroom::queue::{ClaimRequest, Queue};
use mailroom_tests::application::Application;
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::Database;

use super::{all, at, clock, ended, ids, log, queue, sent, state, states, token, tokens};

#[tokio::test]
async fn a_token_waits_in_the_transaction_that_made_it_and_is_claimed_once() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let id = token(&client, "activation").await?;
    assert_eq!(state(&client, id).await?, at("queued", 0));
    let (mut one, mut two) = (queue(&database).await?, queue(&database).await?);
    let claim = one.settle_and_claim(Vec::new(), all(10)).await?;
    assert_eq!(ids(&claim.batches), [id]);
    assert_eq!(claim.batches[0].tokens[0].attempt, 1);
    assert_eq!(state(&client, id).await?, at("leased", 1));
    assert_eq!(two.settle_and_claim(Vec::new(), all(10)).await?.batches, []);

    client.batch_execute("BEGIN").await?;
    token(&client, "activation").await?;
    client.batch_execute("ROLLBACK").await?;
    assert_eq!(one.settle_and_claim(Vec::new(), all(10)).await?.batches, []);
    Ok(())
}

#[tokio::test]
async fn batches_are_full_unless_one_may_be_short_and_what_is_left_is_counted() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    tokens(&client, "activation", 8).await?;
    let mut queue = queue(&database).await?;
    let full = ClaimRequest {
        batches: 5,
        limit: 3,
        partial: false,
        rescan: false,
        spares_doubtful: false,
    };
    let claim = queue.settle_and_claim(Vec::new(), Some(full)).await?;
    assert_eq!(claim.batches.iter().map(|batch| batch.tokens.len()).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(claim.waiting, 2);
    let claim = queue.settle_and_claim(Vec::new(), Some(full)).await?;
    assert_eq!((claim.batches.len(), claim.waiting), (0, 2));
    let claim =
        queue.settle_and_claim(Vec::new(), Some(ClaimRequest { partial: true, ..full })).await?;
    assert_eq!((ids(&claim.batches).len(), claim.waiting), (2, 0));
    Ok(())
}

#[tokio::test]
async fn each_claim_of_a_backlog_brings_all_that_it_wants_until_nothing_is_left() -> Result<()> {
    // On two sessions, of which each leaves places to the three of the second priority that the
    // other one takes; one large batch each.
    for (batches, limit) in [(30, 10), (1, 300)] {
        let database = Database::migrated()?;
        let client = database.connect().await?;
        tokens(&client, "activation", 3_000).await?;
        client.batch_execute("UPDATE mailroom.queue SET priority = 0 WHERE token > 3").await?;
        let mut queue = queue(&database).await?;
        let want = Some(ClaimRequest {
            batches,
            limit,
            partial: false,
            rescan: false,
            spares_doubtful: false,
        });
        let mut settlements = Vec::new();
        for number in 1..=10 {
            let claim = queue.settle_and_claim(settlements, want).await?;
            assert_eq!(ids(&claim.batches).len(), 300, "claim {number} in batches of {limit}");
            settlements = claim.batches.iter().map(|batch| sent(batch.id)).collect();
        }
        assert_eq!(queue.settle_and_claim(settlements, want).await?.batches, []);
    }
    Ok(())
}

#[tokio::test]
async fn places_kept_for_what_another_collector_holds_are_filled_and_no_token_is_picked_twice()
-> Result<()> {
    let database = Database::migrated()?;
    let mut other = database.connect().await?;
    tokens(&other, "activation", 30).await?;
    // All fell due at the same time.
    other
        .batch_execute("UPDATE mailroom.queue SET due_at = now(), priority = (token > 25)::integer")
        .await?;
    let transaction = other.transaction().await?;
    transaction.batch_execute("SELECT FROM mailroom.queue WHERE priority = 1 FOR UPDATE").await?;
    let client = database.connect().await?;
    for (scan_limit, turn) in [(21, 0), (1, 6), (25, 3), (60, 0)] {
        let query = format!(
            "SELECT cardinality(places), (SELECT count(DISTINCT place)::integer
                FROM unnest(places) AS place),
                first_through = (SELECT max(due_at) FROM mailroom.queue)
            FROM mailroom.lock_candidates(
                {scan_limit}, {turn}, '-infinity', '-infinity', now(), true, false
            )"
        );
        let row = client.query_one(&query, &[]).await?;
        let expected = scan_limit.min(25);
        assert_eq!(
            (row.get(0), row.get(1), row.get(2)),
            (expected, expected, true),
            "{scan_limit}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn what_is_used_deleted_expired_or_about_to_is_logged_and_never_leased() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let [used, deleted, expired, dying, good] = [
        token(&client, "activation").await?,
        token(&client, "activation").await?,
        token(&client, "activation").await?,
        token(&client, "activation").await?,
        token(&client, "activation").await?,
    ];
    client
        .batch_execute(&format!(
            "UPDATE tokens SET consumed_at = 1 WHERE id = {used};
            DELETE FROM tokens WHERE id = {deleted};
            UPDATE mailroom.issued_tokens SET expires_at = 1 WHERE id = {expired};
            UPDATE mailroom.issued_tokens SET expires_at = extract(epoch FROM now()) + 28
                WHERE id = {dying}"
        ))
        .await?;
    let mut queue = queue(&database).await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [good]);
    let too_late = "it expired before it could be sent";
    for (token, outcome, reason) in [
        (used, "cancelled", "it was used"),
        (deleted, "cancelled", "it was deleted"),
        (expired, "expired", too_late),
        (dying, "expired", too_late),
    ] {
        assert_eq!(log(&client, token).await?, [ended(outcome, reason)]);
    }
    assert_eq!(state(&client, dying).await?, at("expired", 0));
    Ok(())
}

#[tokio::test]
async fn of_any_hundred_contended_tokens_at_least_ten_are_of_each_action_and_most_are_recoveries()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.accounts(numbered("", 1..=1_200)).insert().await?;
    let active = client.accounts(numbered("", 2_001..=3_200)).active().insert().await?;
    client.token().recovery().insert_for_each(&active).await?;
    // By two collectors that take turns, in single tokens and in hundreds.
    let mut queues = [queue(&database).await?, queue(&database).await?];
    let mut actions = Vec::new();
    for (batches, limit) in
        [1, 3, 7, 10, 100].into_iter().flat_map(|limit| [(1, limit), (2, limit)])
    {
        for queue in &mut queues {
            let want = ClaimRequest {
                batches,
                limit,
                partial: false,
                rescan: false,
                spares_doubtful: false,
            };
            let claim = queue.settle_and_claim(Vec::new(), Some(want)).await?;
            assert_eq!(claim.batches.len(), batches);
            let tokens = claim.batches.into_iter().flat_map(|batch| batch.tokens);
            actions.extend(
                tokens.map(|token| token.action == mailroom_verifier_core::Action::Recover),
            );
        }
    }
    assert_eq!(actions.len(), 2 * 3 * 121);
    for window in actions.windows(100) {
        let recoveries = window.iter().filter(|is_recovery| **is_recovery).count();
        assert!((80..=90).contains(&recoveries), "{recoveries} recoveries");
    }
    Ok(())
}

#[tokio::test]
async fn a_recovery_overtakes_the_activations_that_wait_and_nothing_is_kept_free_for_it()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let activations = tokens(&client, "activation", 5).await?;
    let recovery = token(&client, "password_recovery").await?;
    let mut queue = queue(&database).await?;
    let claim = queue.settle_and_claim(Vec::new(), all(6)).await?;
    let claimed = ids(&claim.batches);
    assert!(claimed[..2].contains(&recovery), "{claimed:?}");
    assert_eq!(claimed.iter().copied().collect::<BTreeSet<_>>().len(), activations.len() + 1);
    Ok(())
}

#[tokio::test]
async fn a_token_whose_transaction_commits_late_is_found_at_the_next_rescan() -> Result<()> {
    let database = Database::migrated()?;
    let (client, late) = (database.connect().await?, database.connect().await?);
    let mut queue = queue(&database).await?;
    late.batch_execute("BEGIN").await?;
    let slow = token(&late, "activation").await?;
    // Each claim moves the low watermark as far as it can.
    for _ in 0..3 {
        let quick = token(&client, "activation").await?;
        assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [quick]);
        assert_eq!(queue.peek(10).await?.due, 0);
    }
    late.batch_execute("COMMIT").await?;
    assert_eq!(queue.peek(10).await?.due, 1);
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [slow]);
    Ok(())
}

#[tokio::test]
async fn a_claim_skips_what_another_one_has_not_finished_and_a_peek_does_not() -> Result<()> {
    let database = Database::migrated()?;
    let (client, other) = (database.connect().await?, database.connect().await?);
    let ids_ = tokens(&client, "activation", 2).await?;
    other
        .batch_execute(&format!(
            "BEGIN; SELECT FROM mailroom.queue WHERE token = {} FOR UPDATE",
            ids_[0]
        ))
        .await?;
    let mut queue = queue(&database).await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [ids_[1]]);
    assert_eq!(queue.peek(10).await?.due, 1);
    other.batch_execute("ROLLBACK").await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [ids_[0]]);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_sent_does_not_stand_in_the_way_however_much_it_is() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.accounts(numbered("", 1..=3_000)).insert().await?;
    client.batch_execute("UPDATE tokens SET consumed_at = 1").await?;
    let good = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    let want = ClaimRequest {
        batches: 1,
        limit: 1,
        partial: false,
        rescan: false,
        spares_doubtful: false,
    };
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), Some(want)).await?.batches), [good]);
    let cancelled =
        states(&client).await?.into_values().filter(|(state, _)| state == "cancelled").count();
    assert_eq!(cancelled, 3_000);
    Ok(())
}

#[tokio::test]
async fn a_clock_that_is_set_back_delays_new_tokens_only_until_the_next_sweep() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let id = token(&client, "activation").await?;
    clock::turn(&client, -600_000).await?;
    // A queue searches for such when it is opened.
    let mut queue = queue(&database).await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [id]);
    Ok(())
}

#[tokio::test]
async fn a_peek_says_when_the_next_token_is_due_and_reads_no_further_than_a_lease() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let mut queue = queue(&database).await?;
    assert_eq!(queue.peek(10).await?.next, Some(super::LEASE));
    let id = token(&client, "activation").await?;
    client
        .batch_execute(&format!(
            "UPDATE mailroom.queue SET attempts = 1, due_at = mailroom.clock() + interval '7 s' \
             WHERE token = {id}"
        ))
        .await?;
    let peek = queue.peek(10).await?;
    assert_eq!((peek.due, peek.next), (0, Some(Duration::from_secs(7))));
    tokens(&client, "activation", 4).await?;
    assert_eq!(queue.peek(3).await?.due, 3);
    Ok(())
}

#[tokio::test]
async fn a_collector_needs_seven_functions_and_no_table() -> Result<()> {
    let database = Database::migrated()?;
    let owner = Application::connect(&database).await?;
    let id = token(&owner.client, "activation").await?;
    let role = format!("{}_collector", database.name());
    owner
        .client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN;
            GRANT EXECUTE ON FUNCTION mailroom.settle, mailroom.release, mailroom.claim,
                mailroom.list_actions,
                mailroom.heartbeat, mailroom.sweep, mailroom.peek TO {role}"
        ))
        .await?;
    let url = database.url_of(&role);
    let mut command = mailroom_tests::collector::command(&url)?;
    let mut collector =
        mailroom_tests::collector::Collector::start(command.args(["--batch-timeout", "0"]))?;
    assert_eq!(collector.lines()?.next_items(1)?.len(), 1);
    let log = collector.stop()?;
    assert!(!log.contains("sweeping"), "{log}");
    assert_eq!(state(&owner.client, id).await?, at("sent", 1));
    owner.client.batch_execute(&format!("SET ROLE {role}")).await?;
    for table in [
        "public.tokens",
        "public.accounts",
        "mailroom.issued_tokens",
        "mailroom.queue",
        "mailroom.leases",
        "mailroom.dead_letters",
        "mailroom.payloads",
        "mailroom.delivery_log",
        "mailroom.collectors",
        "mailroom.deliveries",
    ] {
        let read = owner.client.batch_execute(&format!("SELECT FROM {table}")).await;
        assert!(read.is_err(), "{table} can be read");
    }
    owner
        .client
        .batch_execute(&format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}"))
        .await?;
    Ok(())
}
