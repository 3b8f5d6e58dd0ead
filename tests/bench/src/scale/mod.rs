//! What calls touch in a database of many millions of tokens. It fails where a plan touches more
//! than the stated number of blocks, which does not depend on the machine; times are shown and
//! never judged.

use anyhow::{Context, Result, bail};
use mailroom_tests::plan::{self, rows_read};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::tools;
use serde_json::json;
use tokio_postgres::Client;

use crate::report::{Report, Table, rounded};

#[derive(clap::Args)]
pub(crate) struct Scale {
    /// How many tokens there are; 13 million take 8 GB on the disk
    #[arg(long, value_name = "N", default_value_t = 13_000_000)]
    tokens: u32,
}

const FILL: &str = include_str!("fill.sql");

/// A call, and the most blocks that it may touch. `#` is another number each time, `'@'` a user's
/// id.
struct Call {
    name: &'static str,
    sql: &'static str,
    most: Bound,
}

/// The most blocks of a call.
enum Bound {
    /// However large the tables are.
    Blocks(i64),
    /// The blocks of these tables, in SQL, and so many more.
    Tables(&'static str, i64),
}

const fn call(name: &'static str, most: i64, sql: &'static str) -> Call {
    Call { name, sql, most: Bound::Blocks(most) }
}

/// A plan counts what functions touch, and not what triggers do.
const DELETE_USERS: &str =
    "CREATE FUNCTION pg_temp.delete_users(first bigint) RETURNS void LANGUAGE sql AS $$
    DELETE FROM shop.users
    WHERE id IN (SELECT md5(n::text)::uuid FROM generate_series(first, first + 199) AS n)
$$";

/// The most rows that pruning may read for each that it deletes.
const READ_FOR_EACH_DELETED: i64 = 8;

const CALLS: &[Call] = &[
    call(
        "enqueue",
        60,
        "SELECT mailroom.enqueue('invite', 'a@example.test', 'A', subject_id => \
                          '@')",
    ),
    call(
        "enqueue, with a key",
        80,
        "SELECT mailroom.enqueue('invite', 'a@example.test', idempotency_key => 'new #')",
    ),
    call(
        "redeem, a secret of nobody",
        40,
        "SELECT mailroom.redeem(sha256(int8send(-#)), \
                                             'invite')",
    ),
    call("cancel_subject, of 13 tokens", 400, "SELECT mailroom.cancel_subject('@')"),
    call("recheck", 300, "SELECT mailroom.recheck('@')"),
    call("export_subject", 1_500, "SELECT mailroom.export_subject('@')"),
    call("forget", 2_500, "SELECT mailroom.forget('@')"),
    call("delete 200 users, by the documented trigger", 80_000, "SELECT pg_temp.delete_users(#)"),
    call(
        "claim 32 batches of 10",
        10_000,
        "SELECT count(*) FROM mailroom.claim(
            7, ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 32)), 10, true, 320, 0,
                NULL, NULL, 90000, 30,
            '{1,2,3,4,5,6}'::smallint[], true
        )",
    ),
    call("peek", 200, "SELECT * FROM mailroom.peek(NULL, 100)"),
    call(
        "heartbeat",
        60,
        "SELECT * FROM mailroom.heartbeat(8, 'host process 1', '{}', 90000, \
                            NULL)",
    ),
    call("sweep, 5,000 rows", 20_000, "SELECT mailroom.sweep(NULL, 5000)"),
    call("trace, a token", 150, "SELECT * FROM mailroom.trace(ARRAY[#]::bigint[])"),
    call("history", 60, "SELECT * FROM mailroom.history(#)"),
    call("deliveries, of a token", 300, "SELECT * FROM mailroom.deliveries WHERE token = #"),
    Call {
        name: "trace, an address: reads all tokens",
        sql: "SELECT * FROM mailroom.trace(address => 'u#@example.test')",
        most: Bound::Tables("mailroom.issued_tokens", 5_000),
    },
    Call {
        name: "dead: the newest 1,000",
        sql: "SELECT * FROM mailroom.waiting WHERE state = 'dead' ORDER BY since DESC, token DESC \
              LIMIT 1000",
        most: Bound::Tables("mailroom.dead_letters", 20_000),
    },
    Call {
        name: "status: reads what waits",
        sql: "SELECT * FROM mailroom.status()",
        most: Bound::Tables(
            "mailroom.queue, mailroom.leases, mailroom.dead_letters, \
                             mailroom.dead_letters",
            2_000,
        ),
    },
];

pub(crate) async fn measure(server: &Cluster, &Scale { tokens }: &Scale) -> Result<Report> {
    let database =
        Database::create_on(&server.url("postgres"))?.migrate_with(&["--without-accounts"])?;
    let client = database.connect().await?;
    let adoption = tools::workspace().join("docs/examples/users.sql");
    client.batch_execute(&std::fs::read_to_string(adoption)?).await?;
    eprintln!("writing {tokens} tokens ...");
    // One by one: VACUUM runs in no transaction.
    for statement in FILL.replace("TOKENS", &format!("{tokens}::bigint")).split(";\n") {
        client.batch_execute(statement).await.with_context(|| statement.trim().to_owned())?;
    }
    client.batch_execute(DELETE_USERS).await?;
    let size = "SELECT pg_database_size(current_database()) / 1000000";
    let megabytes: i64 = client.query_one(size, &[]).await?.get(0);
    let version = server.installation().major;
    let title =
        format!("PostgreSQL {version}, {tokens} tokens, {megabytes} MB; nothing is kept of a call");
    let mut table = Table::new(&title, &[&"ms, first", &"ms", &"blocks", &"at most"]);
    let mut json = json!({ "tokens": tokens, "megabytes": megabytes });
    let mut worse = Vec::new();
    for call in CALLS {
        // The first call also reads catalogues, and what is in no cache.
        let first = cost(&client, call, i64::from(tokens) / 100).await?;
        let second = cost(&client, call, i64::from(tokens) / 90).await?;
        let most = most(&client, &call.most).await?;
        if second.blocks > most {
            worse.push(format!("{} touches {} blocks, more than {most}", call.name, second.blocks));
        }
        let [cold, warm] = [first, second].map(|cost| rounded(cost.milliseconds, 2));
        table.row(call.name, &[&cold, &warm, &second.blocks, &most]);
        json[call.name] = json!({ "ms": warm, "blocks": second.blocks, "most": most });
    }
    let (read, deleted, blocks) = prune(&client).await?;
    if read > READ_FOR_EACH_DELETED * deleted {
        worse.push(format!("pruning reads {read} rows to delete {deleted}"));
    }
    table.row("prune_tokens: rows read, deleted, blocks", &[&read, &deleted, &blocks, &""]);
    json["prune_tokens"] = json!({ "read": read, "deleted": deleted, "blocks": blocks });
    if !worse.is_empty() {
        eprintln!("{table}");
        bail!("{}", worse.join("; "));
    }
    Ok(Report { table, json })
}

/// What a call costs about the user, or token, of this number; it is rolled back.
async fn cost(client: &Client, call: &Call, number: i64) -> Result<plan::Cost> {
    let user: String =
        client.query_one("SELECT md5($1::bigint::text)::uuid::text", &[&number]).await?.get(0);
    let sql = call.sql.replace('#', &number.to_string()).replace("'@'", &format!("'{user}'"));
    client.batch_execute("BEGIN").await?;
    let cost = plan::cost(client, &sql).await.with_context(|| call.name)?;
    client.batch_execute("ROLLBACK").await?;
    Ok(cost)
}

async fn most(client: &Client, bound: &Bound) -> Result<i64> {
    let (tables, more) = match bound {
        Bound::Blocks(most) => return Ok(*most),
        Bound::Tables(tables, more) => (tables, more),
    };
    let mut most = *more;
    for table in tables.split(", ") {
        let blocks =
            "SELECT pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint";
        most += client.query_one(blocks, &[&table]).await?.get::<_, i64>(0);
    }
    Ok(most)
}

/// Prunes all tokens that have expired two days ago: rows read, rows deleted, blocks touched.
async fn prune(client: &Client) -> Result<(i64, i64, i64)> {
    client.batch_execute("BEGIN").await?;
    let before = rows_read(client).await?;
    let (mut after, mut deleted, mut blocks) = (0_i64, 0_i64, 0_i64);
    loop {
        // What a step answers is kept, since EXPLAIN answers with the plan alone.
        let step = format!(
            "CREATE TEMPORARY TABLE step ON COMMIT DROP AS
            SELECT * FROM mailroom.prune_tokens(now() - interval '2 days', {after}, 10000)"
        );
        blocks += plan::cost(client, &step).await?.blocks;
        let row = client.query_one("SELECT pruned, through_id FROM step", &[]).await?;
        deleted += row.get::<_, i64>(0);
        client.batch_execute("DROP TABLE step").await?;
        let Some(through) = row.get(1) else { break };
        after = through;
    }
    let read = rows_read(client).await? - before;
    client.batch_execute("ROLLBACK").await?;
    Ok((read, deleted, blocks))
}
