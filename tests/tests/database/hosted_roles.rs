//! What the roles can do that a hosted server such as Supabase gives to whoever has its public key
//! or an account: nothing, as they are taken on by `PostgREST`.

use std::fs;

use anyhow::Result;
use mailroom_tests::tools;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::preflight::{Place, run};

/// What Supabase sets up, and what its documents say for a schema of one's own: the schemas and
/// whatever is made in them is for all of these roles, in as many ways as there are.
const HOSTED: &str = "
    CREATE ROLE anon NOLOGIN NOINHERIT;
    CREATE ROLE authenticated NOLOGIN NOINHERIT;
    CREATE ROLE service_role NOLOGIN NOINHERIT BYPASSRLS;
    CREATE ROLE authenticator LOGIN NOINHERIT;
    GRANT anon, authenticated, service_role TO authenticator;
    CREATE SCHEMA mailroom AUTHORIZATION owner;
    GRANT USAGE ON SCHEMA mail, mailroom TO anon, authenticated, service_role;
    ALTER DEFAULT PRIVILEGES FOR ROLE owner IN SCHEMA mail, mailroom
        GRANT ALL ON TABLES TO anon, authenticated, service_role;
    ALTER DEFAULT PRIVILEGES FOR ROLE owner IN SCHEMA mail, mailroom
        GRANT ALL ON ROUTINES TO anon, authenticated, service_role;
    ALTER DEFAULT PRIVILEGES FOR ROLE owner IN SCHEMA mail, mailroom
        GRANT ALL ON SEQUENCES TO anon, authenticated, service_role;
    ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT ALL ON TABLES TO anon, authenticated;
    ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT ALL ON FUNCTIONS TO anon, authenticated;
    CREATE ROLE application NOLOGIN;
    GRANT application TO owner WITH ADMIN OPTION";

/// Statements about everything that there is. Without a column a table is read where any column is;
/// a null that is no constant leaves no call out.
const STATEMENTS: &str = "
    SELECT unnest(CASE
        WHEN relkind = 'S' THEN ARRAY[format('SELECT nextval(%L)', name)]
        WHEN relkind = 'r' THEN ARRAY[
            format('SELECT FROM %s', name), format('INSERT INTO %s DEFAULT VALUES', name),
            format('DELETE FROM %s', name), format('TRUNCATE %s', name)
        ]
        WHEN pg_relation_is_updatable(name, false) > 0 THEN
            ARRAY[format('SELECT FROM %s', name), format('DELETE FROM %s', name)]
        ELSE ARRAY[format('SELECT FROM %s', name)] END)
    FROM (SELECT relkind, oid::regclass AS name, relnamespace FROM pg_class) AS relation
    WHERE relkind IN ('r', 'v', 'm', 'S')
        AND relnamespace IN ('mail'::regnamespace, 'mailroom'::regnamespace)
    UNION ALL
    SELECT format('%s %s(%s)', CASE prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT' END,
        oid::regproc, array_to_string(ARRAY(
            SELECT format('%s (SELECT NULL::%s)',
                CASE WHEN provariadic <> 0 AND nth = pronargs THEN 'VARIADIC' END,
                format_type(type, NULL))
            FROM unnest(proargtypes) WITH ORDINALITY AS typed (type, nth)
            ORDER BY nth
        ), ', '))
    FROM pg_proc
    WHERE pronamespace IN ('mail'::regnamespace, 'mailroom'::regnamespace)
        -- What everybody may call by intention has no rights of the owner's, and a trigger's
        -- function without them nobody can call.
        AND (prosecdef OR prorettype <> 'trigger'::regtype)
        AND NOT (NOT prosecdef AND pronamespace = 'mailroom'::regnamespace
            AND has_function_privilege('public', oid, 'EXECUTE'))
        AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')";

/// A hosted server whose database is migrated to this kind, with the functions of `postgrest.sql`.
async fn with_postgrest(kind: &str) -> Result<Place> {
    let place = Place::new().await?;
    place.superuser.batch_execute(HOSTED).await?;
    let said = run(&place.in_mail("owner"), &["migrate", "up", kind])?;
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let functions = fs::read_to_string(tools::workspace().join("docs/postgrest.sql"))?;
    let as_owner = format!(
        "SET search_path = mail; SET ROLE owner; {functions}; RESET ROLE; RESET search_path"
    );
    place.superuser.batch_execute(&as_owner).await?;
    Ok(place)
}

#[tokio::test]
async fn who_has_a_hosted_servers_public_key_reads_and_calls_nothing() -> Result<()> {
    for kind in ["--without-accounts", "--drop-secrets"] {
        let place = with_postgrest(kind).await?;
        let statements = place.superuser.query(STATEMENTS, &[]).await?;
        let statements: Vec<String> = statements.iter().map(|row| row.get(0)).collect();
        assert!(statements.len() > 100, "{statements:?}");
        let (api, connection) = tokio_postgres::connect(&place.url("authenticator"), NoTls).await?;
        tokio::spawn(connection);
        for role in ["anon", "authenticated"] {
            let mut done = Vec::new();
            for statement in &statements {
                api.batch_execute(&format!("BEGIN; SET LOCAL ROLE {role}")).await?;
                let error = api.batch_execute(statement).await.err();
                api.batch_execute("ROLLBACK").await?;
                let code = error.as_ref().and_then(tokio_postgres::Error::code);
                if code != Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
                    done.push(format!("{statement}: {error:?}"));
                }
            }
            assert!(done.is_empty(), "{kind}: {role}: {done:#?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_is_called_through_postgrest_takes_what_the_function_itself_takes() -> Result<()> {
    let place = with_postgrest("--without-accounts").await?;
    let pairs = "SELECT of_postgrest.proname::text,
            of_postgrest.proargnames[:of_postgrest.pronargs] AS taken_there,
            itself.proargnames[:itself.pronargs] AS taken
        FROM pg_proc AS of_postgrest
        LEFT JOIN pg_proc AS itself ON itself.pronamespace = 'mailroom'::regnamespace
            AND itself.proname = replace(of_postgrest.proname, 'mailroom_', '')
        WHERE of_postgrest.proname LIKE 'mailroom\\_%'";
    let pairs = place.superuser.query(pairs, &[]).await?;
    assert!(pairs.len() >= 7, "{} functions", pairs.len());
    for pair in pairs {
        let taken_there: Vec<String> = pair.try_get("taken_there")?;
        let taken: Vec<String> = pair.try_get("taken")?;
        assert_eq!(taken_there, taken, "{}", pair.get::<_, &str>("proname"));
    }
    Ok(())
}
