//! Functions and operators of others that fit a call better than PostgreSQL's own ones do, in a
//! schema that the program's sessions look into: none is called. Whoever may create objects in
//! `public`, which is everybody before PostgreSQL 15, would execute code with the rights of
//! collectors and of whoever migrates.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use mailroom_tests::collector::{Collector, command};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::tools::workspace;
use tokio_postgres::Client;

/// What operators and functions of the program's statements may be called with.
const TYPES: &str = "ARRAY['name', 'text', 'varchar', 'bpchar', '\"char\"', 'oid', 'regclass',
    'regtype', 'regproc', 'regprocedure', 'regrole', 'regnamespace', 'int2', 'int4', 'int8',
    'float8', 'timestamptz', 'interval', 'bytea', 'boolean', 'uuid', 'json', 'jsonb', 'oid[]',
    'text[]', 'name[]', 'int2[]', 'int8[]', 'oidvector', 'xid', 'xid8']::regtype[]";

/// Each that is called writes a row.
const BAIT: &str = "
    CREATE TABLE public.called (what text, by_role text DEFAULT current_user);
    GRANT INSERT, SELECT ON public.called TO PUBLIC;
    CREATE FUNCTION public.note(what text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.called VALUES (note.what);
    EXCEPTION WHEN OTHERS THEN
        NULL;
    END
    $$;";

/// An operator for every two types that PostgreSQL has none of its own for.
const OPERATORS: &str = "
    DO $do$
    DECLARE
        wanted record;
    BEGIN
        FOR wanted IN
            SELECT format('lookalike_%s', row_number() OVER ()) AS name, operator, one, other,
                CASE WHEN operator IN ('||', '->>') THEN 'text' WHEN operator = '->' THEN 'json'
                    WHEN operator IN ('+', '-', '*') THEN 'int8' ELSE 'boolean' END AS result
            FROM unnest(ARRAY['=', '<>', '<', '>', '<=', '>=', '||', '+', '-', '~', '!~', '~~',
                    '!~~', '@>', '<@', '&&', '->', '->>']) AS operator,
                unnest(TYPES) AS one, unnest(TYPES) AS other
            WHERE NOT EXISTS (SELECT FROM pg_operator WHERE oprname = operator
                AND oprnamespace = 'pg_catalog'::regnamespace
                AND oprleft = one AND oprright = other)
        LOOP
            EXECUTE format('CREATE FUNCTION public.%I(%s, %s) RETURNS %s LANGUAGE plpgsql AS
                $$BEGIN PERFORM public.note(%L); RETURN NULL; END$$', wanted.name, wanted.one,
                wanted.other, wanted.result,
                format('%s %s %s', wanted.one, wanted.operator, wanted.other));
            EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s,
                FUNCTION = public.%I)', wanted.operator, wanted.one, wanted.other, wanted.name);
        END LOOP;
    END
    $do$";

/// A function of each of the names $1, for every type, and for some two, that PostgreSQL has none
/// of its own for.
const FUNCTIONS: &str = "
    DO $do$
    DECLARE
        wanted record;
    BEGIN
        FOR wanted IN
            SELECT name, arguments, coalesce(result, arguments[1]) AS result
            FROM unnest(string_to_array('NAMES', ' ')) AS name
            CROSS JOIN LATERAL (
                SELECT CASE WHEN count(DISTINCT prorettype) = 1 THEN min(prorettype::oid)::regtype
                    END
                FROM pg_proc JOIN pg_type ON pg_type.oid = prorettype
                WHERE proname = name AND pronamespace = 'pg_catalog'::regnamespace
                    AND typtype <> 'p' AND NOT proretset
            ) AS own (result)
            CROSS JOIN LATERAL (
                SELECT ARRAY[one] FROM unnest(TYPES) AS one
                UNION ALL
                SELECT ARRAY[one, other] FROM unnest(TYPES) AS one,
                    unnest(ARRAY['text', 'name', 'int4', 'int8', 'oid', 'boolean', 'text[]']
                        ::regtype[]) AS other
            ) AS given (arguments)
            WHERE NOT EXISTS (SELECT FROM pg_proc WHERE proname = name
                AND pronamespace = 'pg_catalog'::regnamespace
                AND proargtypes::oid[] = arguments::oid[])
        LOOP
            EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS
                $$BEGIN PERFORM public.note(%L); RETURN NULL; END$$', wanted.name,
                array_to_string(wanted.arguments, ', '), wanted.result,
                format('%s(%s)', wanted.name, array_to_string(wanted.arguments, ', ')));
        END LOOP;
    END
    $do$";

/// The names that statements and code call in the files of a folder.
fn called_in(folder: &Path, names: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            called_in(&path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "sql" || extension == "rs")
        {
            let text = fs::read_to_string(path)?;
            for (place, _) in text.match_indices('(') {
                let before = &text[..place];
                let is_of_name = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
                let name = &before[before.trim_end_matches(is_of_name).len()..];
                names.insert(name.to_owned());
            }
        }
    }
    Ok(())
}

/// Puts them into `public`, as a role that may do nothing else.
async fn bait(database: &Database) -> Result<Client> {
    let superuser = database.connect().await?;
    let role = format!("{}_visitor", database.name());
    superuser
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT CREATE, USAGE ON SCHEMA public TO {role};"
        ))
        .await?;
    let mut names = BTreeSet::new();
    called_in(&workspace().join("collector/src"), &mut names)?;
    let rows = superuser
        .query(
            "SELECT DISTINCT proname::text FROM pg_proc WHERE proname::text = ANY ($1)
                AND pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f'",
            &[&names.into_iter().collect::<Vec<_>>()],
        )
        .await?;
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    ensure!(names.len() > 40, "few functions are called: {names:?}");
    let visitor = database.connect_as(&role).await?;
    // Or these statements would call what they make.
    visitor.batch_execute("SET search_path = pg_catalog, pg_temp").await?;
    visitor.batch_execute(BAIT).await?;
    visitor.batch_execute(&OPERATORS.replace("TYPES", TYPES)).await?;
    let functions = FUNCTIONS.replace("NAMES", &names.join(" ")).replace("TYPES", TYPES);
    visitor.batch_execute(&functions).await?;
    Ok(superuser)
}

async fn expect_none(superuser: &Client, what: &str) -> Result<()> {
    let rows = superuser
        .query("SELECT DISTINCT what || ' as ' || by_role FROM public.called", &[])
        .await?;
    let called: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    ensure!(called.is_empty(), "{what} calls {called:?}");
    Ok(())
}

async fn no_command_calls_one(options: &[&str]) -> Result<()> {
    let database = Database::create()?;
    let superuser = bait(&database).await?;
    let up = [&["migrate", "up"], options].concat();
    let prefix = format!("--prefix={}_", database.name());
    let commands: [&[&str]; 14] = [
        &up,
        &["migrate", "status"],
        &["migrate", "roles", "--print", &prefix],
        &["migrate", "bind", "--name", "x"],
        &["status", "--installation", "x", "--runs"],
        &["dead"],
        &["trace", "a@x.test"],
        &["actions"],
        &["retry", "--all-dead"],
        &["discard", "--all-dead"],
        &["suppress", "a@x.test"],
        &["subject", "export", "7"],
        &["subject", "forget", "7"],
        &["prune", "--older-than", "30d"],
    ];
    for arguments in commands {
        let output = program::mailroom()?
            .args(arguments)
            .env("MAILROOM_DATABASE_URL", database.url())
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let what = arguments.join(" ");
        expect_none(&superuser, &what).await?;
        // An alarm is no failure of the command.
        ensure!(output.status.code().is_some_and(|code| code < 3), "{what}: {said}");
    }
    superuser
        .batch_execute("SELECT mailroom.enqueue('activate', 'a@x.test', subject_id => '7')")
        .await?;
    let mut collect = command(database.url())?;
    collect.args(["--batch-timeout", "0"]).env("MAILROOM_INSTALLATION", "x");
    let mut collector = Collector::start(&mut collect)?;
    let lines = collector.lines()?;
    if options.contains(&"--without-accounts") {
        lines.next_line()?;
    } else {
        collector.wait_until_it_collects()?;
    }
    collector.stop()?;
    expect_none(&superuser, "collect").await
}

#[tokio::test]
async fn none_is_called_where_mailroom_has_the_tables_of_accounts() -> Result<()> {
    no_command_calls_one(&["--with-accounts"]).await
}

#[tokio::test]
async fn none_is_called_beside_tables_of_a_product() -> Result<()> {
    no_command_calls_one(&["--without-accounts"]).await
}
