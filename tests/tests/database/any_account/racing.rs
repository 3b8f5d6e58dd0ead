//! Whoever locks more than one token of a subject does so in one order.

use std::sync::Arc;

use anyhow::Result;
use mailroom::queue::Queue;
use mailroom_tests::fixtures::{Fixtures, eligible};
use mailroom_verifier_core::Version;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error};

use super::{claim, product, queue, sent};

const SUBJECTS: usize = 2;
const ACTIONS: [&str; 4] = ["recover", "sign_in", "change_email", "invite"];
const CALLERS: usize = 12;
const TURNS: usize = 240;

/// A link that was made, whatever has become of it since.
#[derive(Clone)]
struct Link {
    action: &'static str,
    secret: Vec<u8>,
    code: Option<String>,
}

/// The links of each subject, the newest last.
type Links = Arc<Mutex<[Vec<Link>; SUBJECTS]>>;

/// Enqueues a mail and keeps its link: in one transaction, since whoever sees a token may end it.
async fn enqueue(
    client: &mut Client,
    links: &Links,
    subject: usize,
    turn: usize,
) -> Result<(), Error> {
    let action = ACTIONS[turn % ACTIONS.len()];
    let transaction = client.transaction().await?;
    let mail = transaction.mail(action).to(format!("{subject}@x.test")).subject(subject);
    let token = mail.enqueue().await?;
    let query = "SELECT secret, code FROM mailroom.queue WHERE token = $1";
    let row = transaction.query_one(query, &[&token]).await?;
    transaction.commit().await?;
    links.lock().await[subject].push(Link { action, secret: row.get(0), code: row.get(1) });
    Ok(())
}

/// What one caller of many does in a turn to the links of a subject.
async fn call(client: &mut Client, links: &Links, index: usize, turn: usize) -> Result<(), Error> {
    let subject = turn % SUBJECTS;
    let known = links.lock().await[subject].clone();
    let older = known.get((index * 7 + turn * 13) % known.len().max(1));
    let (Some(newest), Some(older)) = (known.last(), older) else {
        return enqueue(client, links, subject, turn).await;
    };
    let redeem = "SELECT FROM mailroom.redeem($1, $2, $3)";
    let subject_id = subject.to_string();
    match (index / 6 * 5 + turn / SUBJECTS) % 12 {
        0..=2 => return enqueue(client, links, subject, turn).await,
        3..=5 => client.execute(redeem, &[&newest.secret, &newest.action, &newest.code]).await?,
        6 | 7 => client.execute(redeem, &[&older.secret, &older.action, &older.code]).await?,
        8 => {
            let renew = "SELECT mailroom.renew_link($1, $2)";
            client.execute(renew, &[&older.secret, &older.action]).await?
        }
        9 => {
            let cancel = "SELECT mailroom.cancel(max(id)) FROM mailroom.issued_tokens
                WHERE subject_id = $1";
            client.execute(cancel, &[&subject_id]).await?
        }
        10 => {
            let cancel = "SELECT mailroom.cancel_subject($1, $2)";
            client.execute(cancel, &[&subject_id, &index.is_multiple_of(2)]).await?
        }
        _ => client.execute("SELECT mailroom.forget($1)", &[&subject_id]).await?,
    };
    Ok(())
}

#[tokio::test]
async fn whatever_is_done_at_once_to_the_links_of_one_subject_never_deadlocks() -> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute(&eligible(&ACTIONS)).await?;
    // No link is old enough otherwise.
    client.batch_execute("UPDATE mailroom.actions SET cooldown = '0'").await?;
    let links = Links::default();
    let mut callers = JoinSet::new();
    for index in 0..CALLERS {
        let (mut client, links) = (database.connect().await?, links.clone());
        callers.spawn(async move {
            for turn in 0..TURNS {
                call(&mut client, &links, index, turn).await?;
            }
            anyhow::Ok(())
        });
    }
    let mut collector = queue(&database, Version::V2).await?;
    while !callers.is_empty() {
        while let Some(ended) = callers.try_join_next() {
            ended??;
        }
        if let Some(batch) = claim(&mut collector).await? {
            collector.settle_and_claim(vec![sent(batch.id)], None).await?;
        }
        tokio::task::yield_now().await;
    }
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(super::number(&client, deadlocks).await?, 0);
    Ok(())
}
