//! How long `mailroom.request` takes for people who exist and for those
//! who do not, call and commit.
//!
//! Each round asks once for each sort of person, one after the other, so that other load on the
//! machine slows all of them.

use std::time::Instant;

use anyhow::Result;
use mailroom_tests::postgres::{Cluster, Database};
use serde_json::json;

use crate::report::{Report, Table, percentile, rounded};

#[derive(clap::Args)]
pub(crate) struct Requests {
    /// How often each sort of person is asked for
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    rounds: u32,
}

/// Whose mail is asked for: what is shown, and how their logins begin.
const PEOPLE: [(&str, &str); 4] = [
    ("nobody of that name", "nobody"),
    ("an account of another status", "provisioned"),
    ("an account within its cooldown", "cooling"),
    ("an account that gets a token", "active"),
];

pub(crate) async fn measure(server: &Cluster, &Requests { rounds }: &Requests) -> Result<Report> {
    let database = Database::create_on(&server.url("postgres"))?.migrate()?;
    let client = database.connect().await?;
    for (status, login) in
        [("provisioned", "provisioned"), ("active", "cooling"), ("active", "active")]
    {
        let insert = "INSERT INTO accounts (email, login, status)
            SELECT n || '@' || $1, $1 || n, $2::text::account_status
                FROM generate_series(0, $3::bigint) AS n";
        client.execute(insert, &[&login, &status, &i64::from(rounds)]).await?;
    }
    let cool = "INSERT INTO tokens (account, action)
        SELECT id, 'password_recovery' FROM accounts WHERE login LIKE 'cooling%'";
    client.batch_execute(cool).await?;
    client.batch_execute("VACUUM ANALYZE").await?;

    let statement = client.prepare("SELECT mailroom.request($1, 'recover')").await?;
    let mut times: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds {
        for (times, (_, login)) in times.iter_mut().zip(PEOPLE) {
            let began = Instant::now();
            client.query_one(&statement, &[&format!("{login}{round}")]).await?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    let title =
        format!("PostgreSQL {}, {rounds} rounds, µs by percentile", server.installation().major);
    let mut table = Table::new(&title, &[&10, &50, &90]);
    let mut json = json!({});
    for (times, (shown, login)) in times.iter().zip(PEOPLE) {
        let [low, median, high] =
            [10, 50, 90].map(|percent| rounded(percentile(times, percent), 0));
        table.row(shown, &[&low, &median, &high]);
        json[login] = json!({ "p10_us": low, "p50_us": median, "p90_us": high });
    }
    Ok(Report { table, json })
}
