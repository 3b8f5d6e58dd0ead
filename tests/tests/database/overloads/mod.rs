//! The schema's functions call each other with arguments of exactly their parameters' types, so
//! that no function that somebody puts beside them fits better and gets the rights of their owner.

use anyhow::{Context, Result};
use mailroom::migrate::{self, MIGRATIONS};
use mailroom_tests::postgres::Database;

/// Functions that look up what they call each time, and that the scenario has not executed.
const NOT_EXECUTED: &str = "
    SELECT proname::text FROM pg_proc AS known JOIN pg_language ON pg_language.oid = prolang
    WHERE pronamespace = 'mailroom'::regnamespace AND lanname = 'plpgsql'
        AND prosrc ~ 'mailroom\\.[a-z_]+\\('
        AND NOT EXISTS (
            SELECT FROM pg_stat_xact_user_functions
            WHERE funcname = proname AND schemaname = 'mailroom'
        )
    GROUP BY proname ORDER BY proname";

#[tokio::test]
async fn no_function_that_is_put_beside_those_of_the_schema_is_called() -> Result<()> {
    // With secrets in `tokens` and without them.
    for count in [MIGRATIONS.len() - 1, MIGRATIONS.len()] {
        let database = Database::create()?;
        let mut client = database.connect().await?;
        migrate::up(&mut client, &MIGRATIONS[..count], &mut |_| {}).await?;
        client.batch_execute(include_str!("plant.sql")).await?;
        let planted = "SELECT count(*) FROM public.overloads";
        let planted: i64 = client.query_one(planted, &[]).await?.get(0);
        assert!(planted > 5_000, "{planted} overloads");

        // What is counted of functions is counted of this transaction.
        client.batch_execute("SET track_functions = 'all'; BEGIN").await?;
        let life = client.batch_execute(include_str!("life.sql")).await;
        let left_out = match life {
            Ok(()) => client.query(NOT_EXECUTED, &[]).await?,
            Err(_) => Vec::new(),
        };
        client.batch_execute("ROLLBACK").await?;
        let called = "SELECT signature FROM public.called_overload JOIN public.overloads
            ON number = last_value AND is_called";
        let called = client.query_opt(called, &[]).await?.map(|row| row.get::<_, String>(0));
        assert_eq!(called, None, "of {count} migrations");
        life.context("the scenario fails")?;
        let left_out: Vec<String> = left_out.iter().map(|row| row.get(0)).collect();
        assert!(left_out.is_empty(), "{left_out:?} of {count} migrations");
    }
    Ok(())
}
