//! Redeeming while others redeem, guess, suspend and delete.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mailroom_tests::application::{Application, Redemption, Token, at_once};
use mailroom_tests::collector::PATIENCE;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::{Cluster, Database};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;

use crate::RACE;

const ACTIVATION: &str = "activation";
const RECOVERY: &str = "password_recovery";

/// How often each verdict was given; `serialization failure` where the call failed as one.
fn tally(verdicts: &[String]) -> BTreeMap<&str, usize> {
    let mut tally = BTreeMap::new();
    for verdict in verdicts {
        *tally.entry(verdict.as_str()).or_default() += 1;
    }
    tally
}

/// Redeems in a transaction of an isolation level, and commits it.
async fn redeem_in(
    application: &Application,
    isolation: &str,
    token: &Token,
    action: &str,
    code: Option<&str>,
) -> Result<String> {
    // The snapshot is taken by the first query, before the race is decided.
    application
        .client
        .batch_execute(&format!("BEGIN ISOLATION LEVEL {isolation}; SELECT 1 FROM tokens"))
        .await?;
    let verdict = match application.redeem(&token.secret, action, code).await {
        Ok(redemption) => redemption.verdict,
        Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {
            application.client.batch_execute("ROLLBACK").await?;
            return Ok("serialization failure".to_owned());
        }
        Err(error) => return Err(error.into()),
    };
    match application.client.batch_execute("COMMIT").await {
        Ok(()) => Ok(verdict),
        Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {
            Ok("serialization failure".to_owned())
        }
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn of_a_hundred_connections_with_one_link_one_redeems_it() -> Result<()> {
    let _race = RACE.lock().await;
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for action in [ACTIVATION, RECOVERY] {
        let account = match action {
            ACTIVATION => application.register("a").await?,
            _ => application.register_and_activate("b").await?,
        };
        let token = match action {
            ACTIVATION => application.newest_token(account, action).await?,
            _ => application.insert_token(account, action).await?,
        };
        let verdicts = at_once(&database, 100, |_, application| {
            let token = token.clone();
            async move {
                let code = token.code.as_deref().filter(|_| action == RECOVERY);
                Ok(application.redeem(&token.secret, action, code).await?.verdict)
            }
        })
        .await?;
        assert_eq!(tally(&verdicts), BTreeMap::from([("ok", 1), ("used", 99)]), "{action}");
        assert_eq!(application.status(account).await?, "active");
    }
    Ok(())
}

#[tokio::test]
async fn of_ten_thousand_guesses_on_a_hundred_connections_five_get_a_verdict_on_the_code()
-> Result<()> {
    let _race = RACE.lock().await;
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let recovery = application.token().recovery().of(account);
    let (token, _) = recovery.code(Some("99999")).insert().await?;
    let verdicts = at_once(&database, 100, |index, application| {
        let token = token.clone();
        async move {
            let mut verdicts = Vec::new();
            for guess in 0..100 {
                let code = format!("{:05}", index * 100 + guess);
                verdicts
                    .push(application.redeem(&token.secret, RECOVERY, Some(&code)).await?.verdict);
            }
            Ok(verdicts)
        }
    })
    .await?
    .concat();
    assert_eq!(tally(&verdicts), BTreeMap::from([("too_many_attempts", 9_995), ("wrong_code", 5)]));
    assert_eq!(application.attempts(token.id).await?, 5);
    let right = application.redeem(&token.secret, RECOVERY, Some("99999")).await?;
    assert_eq!(right, Redemption::refused("too_many_attempts"));
    Ok(())
}

#[tokio::test]
async fn stricter_isolation_levels_give_no_second_ok_and_no_sixth_try() -> Result<()> {
    let _race = RACE.lock().await;
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
        let account = application.register_and_activate(isolation).await?;
        for right in [true, false] {
            let token = application.insert_token(account, RECOVERY).await?;
            let code = token.code.clone().filter(|_| right).unwrap_or_default();
            let verdicts =
                at_once(&database, 60, |_, application| {
                    let (token, code) = (token.clone(), code.clone());
                    async move {
                        redeem_in(&application, isolation, &token, RECOVERY, Some(&code)).await
                    }
                })
                .await?;
            let tally = tally(&verdicts);
            let times = |verdict| tally.get(verdict).copied().unwrap_or_default();
            assert_eq!(times("ok"), usize::from(right), "{isolation}: {tally:?}");
            assert!(right || (1..=5).contains(&times("wrong_code")), "{isolation}: {tally:?}");
            let refused =
                times("used") + times("too_many_attempts") + times("serialization failure");
            assert_eq!(times("ok") + times("wrong_code") + refused, 60, "{isolation}: {tally:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn of_a_hundred_links_of_one_account_one_is_redeemed() -> Result<()> {
    let _race = RACE.lock().await;
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let mut tokens = Vec::new();
    for _ in 0..100 {
        tokens.push(application.insert_token(account, RECOVERY).await?);
    }
    let verdicts = at_once(&database, 100, |index, application| {
        let token = tokens[index].clone();
        async move {
            Ok(application.redeem(&token.secret, RECOVERY, token.code.as_deref()).await?.verdict)
        }
    })
    .await?;
    assert_eq!(tally(&verdicts), BTreeMap::from([("ok", 1), ("used", 99)]));
    Ok(())
}

/// Waits until some call to `mailroom.redeem` waits for a lock.
async fn until_one_waits(application: &Application) -> Result<()> {
    let began = Instant::now();
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
            AND query LIKE '%mailroom.redeem%'";
    while application.client.query_one(waiting, &[]).await?.get::<_, i64>(0) == 0 {
        if began.elapsed() > PATIENCE {
            bail!("no call to mailroom.redeem waits for a lock after {PATIENCE:?}");
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn redeem_in_background(
    database: &Database,
    token: &Token,
) -> Result<JoinHandle<Result<Redemption>>> {
    let (application, token) = (Application::connect(database).await?, token.clone());
    Ok(tokio::spawn(async move { Ok(application.redeem(&token.secret, ACTIVATION, None).await?) }))
}

#[tokio::test]
async fn what_happens_while_a_redemption_waits_is_taken_into_account() -> Result<()> {
    let database = Database::migrated()?;
    let (application, observer) =
        (Application::connect(&database).await?, Application::connect(&database).await?);
    for (change, end, verdict) in [
        ("UPDATE accounts SET status = 'suspended' WHERE id = $1", "COMMIT", "not_eligible"),
        ("UPDATE accounts SET status = 'suspended' WHERE id = $1", "ROLLBACK", "ok"),
        ("UPDATE accounts SET status = 'active' WHERE id = $1", "COMMIT", "not_eligible"),
        ("UPDATE accounts SET email = 'c' WHERE id = $1", "COMMIT", "expired"),
        ("UPDATE accounts SET email = 'r' WHERE id = $1", "ROLLBACK", "ok"),
        ("DELETE FROM accounts WHERE id = $1", "COMMIT", "unknown"),
        ("DELETE FROM accounts WHERE id = $1", "ROLLBACK", "ok"),
        ("DELETE FROM tokens WHERE account = $1", "COMMIT", "unknown"),
        ("UPDATE tokens SET consumed_at = 1 WHERE account = $1", "COMMIT", "used"),
        ("UPDATE tokens SET consumed_at = 1 WHERE account = $1", "ROLLBACK", "ok"),
    ] {
        let account = application.register(&format!("{change} {end}")).await?;
        let token = application.newest_token(account, ACTIVATION).await?;
        application.client.batch_execute("BEGIN").await?;
        application.client.execute(change, &[&account]).await?;
        let redemption = redeem_in_background(&database, &token).await?;
        until_one_waits(&observer).await?;
        application.client.batch_execute(end).await?;
        assert_eq!(redemption.await??.verdict, verdict, "{change}, {end}");
    }
    Ok(())
}

#[tokio::test]
async fn a_token_that_expires_while_its_redemption_waits_is_expired() -> Result<()> {
    let database = Database::migrated()?;
    let (application, observer) =
        (Application::connect(&database).await?, Application::connect(&database).await?);
    let account = application.register("a").await?;
    // In time enough for the redemption to begin on a busy machine.
    let (token, _) = application.token().of(account).living(21).insert().await?;
    application.client.batch_execute("BEGIN").await?;
    application
        .client
        .execute("SELECT FROM accounts WHERE id = $1 FOR UPDATE", &[&account])
        .await?;
    let redemption = redeem_in_background(&database, &token).await?;
    until_one_waits(&observer).await?;
    let is_over = "SELECT expires_at <= extract(epoch FROM clock_timestamp()) FROM tokens
        WHERE id = $1";
    while !observer.client.query_one(is_over, &[&token.id]).await?.get::<_, bool>(0) {
        sleep(Duration::from_millis(500)).await;
    }
    application.client.batch_execute("COMMIT").await?;
    assert_eq!(redemption.await??, Redemption::refused("expired"));
    Ok(())
}

/// How often each of many does something: the same number for each kind of work and each pause
/// between two deletions.
const TURNS: usize = 60;

/// What one of many does to a few accounts. Nobody takes more than one account in a transaction.
async fn live(application: Application, index: usize, accounts: Vec<i64>) -> Result<()> {
    for done in 0..TURNS {
        let account = accounts[(index * 7 + done * 13) % accounts.len()];
        let newest = "SELECT secret, action::text, code FROM tokens WHERE account = $1
            ORDER BY random() LIMIT 1";
        match (index + done) % 6 {
            0 => application.set_status(account, "suspended").await?,
            1 => application.set_status(account, "active").await?,
            2 => application.request(&format!("login {account}"), RECOVERY).await?,
            3 if done % 5 == 0 => {
                let delete = "DELETE FROM accounts WHERE id = $1";
                let insert = "INSERT INTO accounts (id, email, login, status)
                    VALUES ($1, 'login ' || $1::bigint, 'login ' || $1::bigint, 'active')";
                application.client.execute(delete, &[&account]).await?;
                application
                    .client
                    .execute(&format!("{insert} ON CONFLICT DO NOTHING"), &[&account])
                    .await?;
            }
            _ => {
                if let Some(row) = application.client.query_opt(newest, &[&account]).await? {
                    let code: Option<String> = row.get(2);
                    let code = code.filter(|_| row.get::<_, &str>(1) == RECOVERY);
                    application.redeem(row.get(0), row.get(1), code.as_deref()).await?;
                }
                let insert = "INSERT INTO tokens (account, action)
                    SELECT id, 'password_recovery' FROM accounts WHERE id = $1 FOR KEY SHARE";
                application.client.execute(insert, &[&account]).await?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn redeeming_requesting_suspending_and_deleting_never_deadlock() -> Result<()> {
    let _race = RACE.lock().await;
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let mut accounts = Vec::new();
    for _ in 0..3 {
        let insert = "INSERT INTO accounts (email, login, status)
            VALUES ('login ' || lastval(), 'login ' || lastval(), 'active') RETURNING id";
        application.client.query_one("SELECT nextval('accounts_id_seq')", &[]).await?;
        accounts.push(application.client.query_one(insert, &[]).await?.get(0));
    }
    let all =
        at_once(&database, 24, |index, application| live(application, index, accounts.clone()));
    let ended = timeout(5 * PATIENCE, all).await;
    ended.with_context(|| format!("some of 24 who take {TURNS} turns are blocked"))??;
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(application.client.query_one(deadlocks, &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}

#[tokio::test]
async fn a_use_is_durable_once_it_is_answered() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let (used, tried) = (
        application.insert_token(account, RECOVERY).await?,
        application.register_and_activate("b").await?,
    );
    let tried = application.insert_token(tried, RECOVERY).await?;
    assert_eq!(application.redeem(&tried.secret, RECOVERY, Some("")).await?.verdict, "wrong_code");
    assert_eq!(
        application.redeem(&used.secret, RECOVERY, used.code.as_deref()).await?.verdict,
        "ok"
    );
    cluster.stop(mailroom_tests::postgres::Shutdown::Immediate)?;
    cluster.start_again()?;
    let application = Application::connect(&database).await.context("after the restart")?;
    assert_eq!(
        application.redeem(&used.secret, RECOVERY, used.code.as_deref()).await?.verdict,
        "used"
    );
    assert_eq!(application.attempts(tried.id).await?, 1);
    Ok(())
}
