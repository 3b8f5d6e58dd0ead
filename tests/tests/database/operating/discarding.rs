use anyhow::Result;
use mailroom_tests::postgres::Database;

use super::{count, give_up, run};

#[tokio::test]
async fn a_dead_letter_that_is_discarded_is_logged_and_its_link_goes_on_working() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 4).await?;
    client.batch_execute("INSERT INTO mailroom.payloads VALUES (2, '{}'), (3, '{}')").await?;
    assert_eq!(run(&database, &["discard", "2", "2"])?.success()?, "1 dead letter is discarded\n");
    let said = run(&database, &["discard", "2", "1"])?;
    assert_eq!((said.code, said.output.as_str()), (Some(1), "1 dead letter is discarded\n"));
    assert_eq!(said.errors, "mailroom: token 2 is no dead letter\n");
    assert_eq!(
        (
            count(&client, "mailroom.dead_letters").await?,
            count(&client, "mailroom.payloads").await?
        ),
        (2, 1)
    );
    let logged = "mailroom.deliveries WHERE state = 'cancelled' AND reason = 'discarded' AND \
                  attempts = 8 AND token IN (1, 2)";
    assert_eq!(count(&client, logged).await?, 2);
    // An earlier attempt may have delivered it.
    assert_eq!(count(&client, "mailroom.issued_tokens WHERE cancelled_at IS NULL").await?, 4);
    assert_eq!(run(&database, &["retry", "1"])?.code, Some(1));
    Ok(())
}

#[tokio::test]
async fn all_dead_letters_of_an_age_are_discarded_at_once() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 3).await?;
    client
        .batch_execute(
            "UPDATE mailroom.dead_letters SET died_at = now() - interval '3 days' WHERE token = 2",
        )
        .await?;
    let said = run(&database, &["discard", "--all-dead", "--older-than", "2d"])?.success()?;
    assert_eq!(said, "1 dead letter is discarded\n");
    assert_eq!(
        run(&database, &["discard", "--all-dead"])?.success()?,
        "2 dead letters are discarded\n"
    );
    assert_eq!(
        run(&database, &["discard", "--all-dead"])?.success()?,
        "0 dead letters are discarded\n"
    );
    Ok(())
}
