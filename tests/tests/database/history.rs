//! The checker of fault tests finds what it is there to find.

use anyhow::Result;
use mailroom_tests::collector::KEY;
use mailroom_tests::postgres::Database;
use mailroom_tests::trial::Trial;
use mailroom_verifier_core::{Secret, SharedKey, v1};

/// A token and the line that hands it over at an attempt.
struct Known {
    id: i64,
    secret: [u8; 32],
}

impl Known {
    fn line(&self, attempt: u32) -> Result<Vec<u8>> {
        let token = v1::sign_activation(&SharedKey::from_hex(KEY)?, &Secret::from(self.secret));
        let id = self.id;
        let item =
            format!(r#"{{"id":{id},"attempt":{attempt},"action":"activate","token":"{token}"}}"#);
        Ok(format!("{{\"v\":1,\"items\":[{item}]}}\n").into_bytes())
    }
}

/// A queue with two tokens of which one was sent and recorded, and the other is still in the way
/// that `rest` brings about.
async fn trial(rest: &str) -> Result<(Trial, Known)> {
    let mut trial = Trial::with_seed(Database::migrated()?, 1).await?;
    trial.register(2).await?;
    let mut tokens = Vec::new();
    for row in trial.client.query("SELECT id, secret FROM tokens ORDER BY id", &[]).await? {
        tokens.push(Known { id: row.get(0), secret: row.get::<_, &[u8]>(1).try_into()? });
    }
    let (Some(second), Some(first)) = (tokens.pop(), tokens.pop()) else {
        panic!("there are two tokens")
    };
    trial.recorder.take("one", &first.line(1)?);
    trial.client.batch_execute(&sent(first.id)).await?;
    trial.client.batch_execute(&rest.replace("$1", &second.id.to_string())).await?;
    Ok((trial, second))
}

/// What settling a token does.
fn sent(id: i64) -> String {
    format!(
        "DELETE FROM mailroom.queue WHERE token = {id};
        INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
            VALUES (ARRAY[{id}::bigint], now(), 1, 'sent')"
    )
}

async fn fault(trial: &mut Trial) -> String {
    trial.history.check(&trial.client).await.expect_err("the fault is not found").to_string()
}

const SENT: &str = "DELETE FROM mailroom.queue WHERE token = $1;
    INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
        VALUES (ARRAY[$1::bigint], now(), 1, 'sent')";

#[tokio::test]
async fn a_history_without_a_fault_is_none() -> Result<()> {
    let (mut trial, second) = trial(SENT).await?;
    trial.recorder.take("one", &second.line(1)?);
    let tally = trial.history.check(&trial.client).await?;
    assert_eq!((tally.tokens, tally.arrived, tally.duplicated, tally.lost), (2, 2, 0, 0));
    Ok(())
}

#[tokio::test]
async fn a_token_that_waits_for_ever_is_lost() -> Result<()> {
    let (mut trial, _) = trial("").await?;
    assert!(fault(&mut trial).await.starts_with("1 tokens are lost"));
    Ok(())
}

#[tokio::test]
async fn a_token_that_is_recorded_and_never_came_is_lost() -> Result<()> {
    let (mut trial, _) = trial(SENT).await?;
    assert!(fault(&mut trial).await.starts_with("1 tokens are lost"));
    // Also when nobody waits for it any more.
    trial.client.batch_execute("UPDATE accounts SET status = 'suspended'").await?;
    assert!(fault(&mut trial).await.contains("is recorded as sent and never came"));
    Ok(())
}

#[tokio::test]
async fn a_token_that_was_given_up_is_lost_unless_its_sender_refused_it() -> Result<()> {
    let (mut trial, second) = trial(
        "DELETE FROM mailroom.queue WHERE token = $1;
        INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures,
            priority, reason) VALUES ($1, now(), 1, 1, 1, 1, 'no')",
    )
    .await?;
    assert!(fault(&mut trial).await.starts_with("1 tokens are lost"));
    // A sender that took it may have died of it: it did not say that it sends it,
    // nor that it does not.
    trial.recorder.take("one", &second.line(1)?);
    assert!(fault(&mut trial).await.starts_with("1 tokens are lost"));
    trial.recorder.seen().given_up.insert(second.id);
    assert_eq!(trial.history.check(&trial.client).await?.lost, 0);
    Ok(())
}

#[tokio::test]
async fn a_token_that_comes_again_without_a_fault_is_doubled() -> Result<()> {
    let (mut trial, second) = trial(SENT).await?;
    trial.recorder.take("one", &second.line(1)?);
    trial.recorder.take("two", &second.line(2)?);
    let found = fault(&mut trial).await;
    assert!(
        found.contains("was handed over 2 times") && found.contains("went out again after"),
        "{found}"
    );
    // A fault while it was on its way accounts for the one,
    // and not for coming after it was recorded.
    trial.history.put_at_risk([second.id].into());
    let found = fault(&mut trial).await;
    assert!(
        !found.contains("was handed over 2 times") && found.contains("went out again after"),
        "{found}"
    );
    Ok(())
}

#[tokio::test]
async fn a_token_that_comes_again_with_the_same_attempt_is_a_fault() -> Result<()> {
    let (mut trial, second) = trial(SENT).await?;
    trial.recorder.take("one", &second.line(1)?);
    trial.recorder.take("two", &second.line(1)?);
    trial.history.put_at_risk([second.id].into());
    assert!(fault(&mut trial).await.contains("came twice with attempt 1"));
    Ok(())
}

#[tokio::test]
async fn a_token_in_two_places_or_in_none_is_a_fault() -> Result<()> {
    for (rest, sentence) in [
        ("DELETE FROM mailroom.queue WHERE token = $1", "is nowhere"),
        (
            "INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures, \
             priority, reason) VALUES ($1, now(), 1, 1, 1, 1, 'no')",
            "is at once dead, queued",
        ),
        (
            "INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome) \
             VALUES (ARRAY[$1::bigint], now(), 1, 'sent')",
            "is queued after it was sent",
        ),
        (
            "DELETE FROM mailroom.queue WHERE token = $1;
            INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
                VALUES (ARRAY[$1::bigint], now(), 1, 'sent'), (ARRAY[$1::bigint], now(), 1,
                    'sent')",
            "ended more than once",
        ),
    ] {
        let (mut trial, second) = trial(rest).await?;
        trial.recorder.take("one", &second.line(1)?);
        // Or one that is dead would be lost above all.
        trial.recorder.seen().given_up.insert(second.id);
        let found = fault(&mut trial).await;
        assert!(found.contains(&format!("token {} {sentence}", second.id)), "{found}");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_collector_holds_after_its_end_is_found() -> Result<()> {
    let (trial, _) = trial(
        "DELETE FROM mailroom.queue WHERE token = $1;
        INSERT INTO mailroom.leases (batch, collector_id, claimed_at, renewed_at, ends_at, due_at,
            tokens, attempts, failures, priorities, secrets, codes)
            VALUES (gen_random_uuid(), 1, now(), now(), now(), now(), '{$1}', '{1}', '{0}',
                '{1}', '{x}', '{NULL}')",
    )
    .await?;
    assert!(trial.history.nothing_is_claimed(&trial.client).await.is_err());
    Ok(())
}
