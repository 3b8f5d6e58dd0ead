//! Migrations take back what default privileges give of what they make, and nothing of what others
//! were given.

use anyhow::Result;
use mailroom_tests::postgres::{Cluster, Database};
use tokio_postgres::Client;

use super::{fail, succeed};

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

/// Functions with the rights of their owner that others may execute, and tables that they may read.
const OPEN: &str = "
    SELECT oid::regprocedure::text FROM pg_proc
    WHERE pronamespace = 'mailroom'::regnamespace AND prosecdef
        AND (has_function_privilege('public', oid, 'EXECUTE')
            OR has_function_privilege('readonly', oid, 'EXECUTE'))
    UNION ALL
    SELECT oid::regclass::text FROM pg_class
    WHERE relnamespace = 'mailroom'::regnamespace AND relkind IN ('r', 'v')
        AND has_table_privilege('readonly', oid, 'SELECT')";

#[tokio::test]
async fn a_step_fails_where_everybody_may_execute_what_runs_with_the_owners_rights() -> Result<()> {
    // Whenever a step has taken something back.
    const GRANTED: &str = "
        CREATE FUNCTION public.open_it() RETURNS event_trigger LANGUAGE plpgsql AS $$
        BEGIN
            GRANT EXECUTE ON FUNCTION mailroom.claim TO PUBLIC;
        EXCEPTION WHEN undefined_function OR invalid_schema_name THEN NULL;
        END;
        $$;
        CREATE EVENT TRIGGER open_it ON ddl_command_end WHEN TAG IN ('REVOKE')
            EXECUTE FUNCTION public.open_it()";
    let database = Database::create()?;
    let client = database.connect().await?;
    for argument in ["--with-accounts", "--drop-secrets"] {
        client.batch_execute(GRANTED).await?;
        let text = fail(&database, &["up", argument])?;
        assert!(text.contains("everybody may execute mailroom.claim("), "{argument}: {text}");
        client.batch_execute("DROP FUNCTION public.open_it() CASCADE").await?;
        succeed(&database, &["up", "--with-accounts"])?;
    }
    Ok(())
}

#[tokio::test]
async fn what_an_event_trigger_grants_in_an_exception_block_is_taken_back() -> Result<()> {
    let cluster = Cluster::start()?;
    for arguments in [&["up", "--without-accounts"][..], &["up", "--with-accounts"]] {
        let database = Database::create_on(&cluster.url("postgres"))?;
        let client = database.connect().await?;
        client.batch_execute("DROP ROLE IF EXISTS readonly; CREATE ROLE readonly").await?;
        client
            .batch_execute(
                "CREATE FUNCTION public.grant_it() RETURNS event_trigger LANGUAGE plpgsql AS $$
                DECLARE
                    made record;
                BEGIN
                    FOR made IN SELECT * FROM pg_event_trigger_ddl_commands()
                        WHERE command_tag IN ('CREATE FUNCTION', 'CREATE TABLE', 'CREATE VIEW')
                    LOOP
                        BEGIN
                            EXECUTE format('GRANT %s ON %s %s TO readonly',
                                CASE made.command_tag WHEN 'CREATE FUNCTION' THEN 'EXECUTE'
                                    ELSE 'SELECT' END,
                                CASE made.command_tag WHEN 'CREATE FUNCTION' THEN 'FUNCTION'
                                    ELSE 'TABLE' END,
                                made.object_identity);
                        EXCEPTION WHEN undefined_object THEN
                            NULL;
                        END;
                    END LOOP;
                END;
                $$;
                CREATE EVENT TRIGGER grant_it ON ddl_command_end EXECUTE FUNCTION grant_it()",
            )
            .await?;
        succeed(&database, arguments)?;
        let open = client.query(OPEN, &[]).await?;
        let open: Vec<String> = open.iter().map(|row| row.get(0)).collect();
        assert!(open.is_empty(), "{arguments:?}: {open:?}");
        client.batch_execute("DROP OWNED BY readonly").await?;
    }
    Ok(())
}
