//! How long `mailroom_request` takes for people who exist and for those who do not, call and commit.
//!
//!     time-requests ROUNDS
//!
//! Each round asks once for each sort of person, one after the other, so that whatever else the machine does meets all of
//! them alike.

use std::env;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Cluster, Database};

/// Whose mail is asked for: what is shown, and how their logins begin.
const PEOPLE: [(&str, &str); 4] = [
    ("nobody of that name", "nobody"),
    ("an account of another status", "provisioned"),
    ("an account within its cooldown", "cooling"),
    ("an account that gets a token", "active"),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let rounds: usize =
        env::args().nth(1).context("say how many rounds")?.parse().context("rounds are a number")?;
    // The commit's wait for the disk is part of the matter.
    let cluster = Cluster::builder().durable().start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let client = database.connect().await?;
    for (status, login) in [("provisioned", "provisioned"), ("active", "cooling"), ("active", "active")] {
        let insert = "INSERT INTO accounts (email, login, status)
            SELECT n || '@' || $1, $1 || n, $2::text::account_status FROM generate_series(0, $3::bigint) AS n";
        client.execute(insert, &[&login, &status, &i64::try_from(rounds)?]).await?;
    }
    let cool = "INSERT INTO tokens (account, action)
        SELECT id, 'password_recovery' FROM accounts WHERE login LIKE 'cooling%'";
    client.batch_execute(cool).await?;
    client.batch_execute("VACUUM ANALYZE").await?;

    let statement = client.prepare("SELECT mailroom_request($1, 'password_recovery')").await?;
    let mut times: [Vec<Duration>; 4] = Default::default();
    for round in 0..rounds {
        for (times, (_, login)) in times.iter_mut().zip(PEOPLE) {
            let began = Instant::now();
            client.query_one(&statement, &[&format!("{login}{round}")]).await?;
            times.push(began.elapsed());
        }
    }
    println!("PostgreSQL {}, {rounds} rounds, µs", cluster.installation().major);
    println!("{:32} {:>8} {:>8} {:>8}", "", "tenth", "median", "ninth");
    for (mut times, (shown, _)) in times.into_iter().zip(PEOPLE) {
        times.sort_unstable();
        let at = |tenths: usize| times.get(times.len() * tenths / 10).map_or(0, Duration::as_micros);
        println!("{shown:32} {:8} {:8} {:8}", at(1), at(5), at(9));
    }
    Ok(())
}
