//! Wrong codes of a subject are counted over all of its tokens, also where they come at the same
//! time and no function of eligibility locks the subject.

use anyhow::Result;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::rows::wait_for;

use super::{number, product};

#[tokio::test]
async fn of_codes_that_are_tried_at_the_same_time_none_passes_the_hundredth() -> Result<()> {
    let (database, client) = product().await?;
    client
        .batch_execute(
            "INSERT INTO mailroom.actions (number, name, path, code_digits)
                VALUES (100, 'join', '/join', 5);
            INSERT INTO mailroom.code_failures (subject, failures, rests_until)
                VALUES ('7', 99, 0)",
        )
        .await?;
    client.mail("join").subject(7).enqueue_times(21).await?;
    let redeem = "SELECT verdict::text FROM mailroom.redeem($1, 'join', '-')";
    let mut secrets = Vec::new();
    for row in client.query("SELECT secret FROM mailroom.queue", &[]).await? {
        secrets.push(row.get::<_, Vec<u8>>(0));
    }

    let first = database.connect().await?;
    first.batch_execute("BEGIN").await?;
    let verdict: String = first.query_one(redeem, &[&secrets[0]]).await?.get(0);
    assert_eq!(verdict, "wrong_code");
    let mut others = Vec::new();
    for secret in secrets.into_iter().skip(1) {
        let other = database.connect().await?;
        others.push(tokio::spawn(async move {
            other.query_one(redeem, &[&secret]).await.map(|row| row.get::<_, String>(0))
        }));
    }
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database()";
    wait_for(&client, waiting, 20_i64).await?;
    first.batch_execute("COMMIT").await?;

    for other in others {
        assert_eq!(other.await??, "too_many_attempts");
    }
    let failures = "(SELECT failures FROM mailroom.code_failures)";
    assert_eq!(number(&client, failures).await?, 100);
    Ok(())
}
