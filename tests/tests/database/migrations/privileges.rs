//! Migrations take back what default privileges give of what they make, and nothing of what others
//! were given.

use anyhow::Result;
use mailroom_tests::postgres::{Cluster, Database};
use tokio_postgres::Client;

use super::succeed;

/// Who may do what with tables, views, sequences and their columns, but for their owner.
const RIGHTS: &str = "
    SELECT format('%s: %s %s', oid::regclass, grantee::regrole, privilege_type)
    FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
    WHERE relkind IN ('r', 'v', 'S') AND grantee <> relowner AND grantee <> 0
        AND relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'mailroom'))
    ORDER BY 1";

async fn rights(client: &Client) -> Result<Vec<String>> {
    Ok(client.query(RIGHTS, &[]).await?.iter().map(|row| row.get(0)).collect())
}

#[tokio::test]
async fn an_application_keeps_its_rights_on_tables_that_a_migration_alters() -> Result<()> {
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "CREATE ROLE application;
            GRANT SELECT, INSERT, UPDATE, DELETE ON accounts, tokens, jobs TO application;
            GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO application",
        )
        .await?;
    let given = rights(&client).await?;
    assert_eq!(given.len(), 14, "{given:?}");
    succeed(&database, &["up", "--baseline", "0"])?;
    assert_eq!(rights(&client).await?, given);
    client.batch_execute("GRANT SELECT ON ALL TABLES IN SCHEMA mailroom TO application").await?;
    let given = rights(&client).await?;
    succeed(&database, &["up", "--drop-secrets"])?;
    let kept = rights(&client).await?;
    let lost: Vec<_> = given.iter().filter(|right| !kept.contains(right)).collect();
    // Views that are made anew are new.
    assert!(lost.iter().all(|right| right.starts_with("mailroom.adopted_tokens")), "{lost:?}");
    Ok(())
}
