//! What others own, and the right on the schema.

use anyhow::{Context, Result};

use crate::preflight::{Place, documented_grants};

use super::warnings;

#[tokio::test]
async fn what_others_own_in_the_schema_is_named() -> Result<()> {
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute(
            "CREATE ROLE app; GRANT CREATE ON SCHEMA mailroom TO app; SET ROLE app;
            CREATE FUNCTION mailroom.enqueue(text, text) RETURNS bigint LANGUAGE sql
                AS 'SELECT 1::bigint';
            RESET ROLE; ALTER SCHEMA mailroom OWNER TO app;
            GRANT ALL ON SCHEMA mailroom TO owner",
        )
        .await?;
    let text = place.warnings()?.join("\n");
    let sentence = "the role app owns the routine mailroom.enqueue(text,text), the schema \
                    mailroom, and so can have its own functions called with the rights of the \
                    role owner; ALTER SCHEMA mailroom OWNER TO owner; DROP ROUTINE \
                    mailroom.enqueue(text,text)";
    assert!(text.contains(sentence), "{text}");
    place
        .superuser
        .batch_execute(sentence.split_once("; ").context("it has statements")?.1)
        .await?;
    place.mend().await?;
    assert_eq!(place.warnings()?.join("\n"), "");
    Ok(())
}

/// The statements are for copying: after a hand-over of the tables alone they would have dropped
/// every function of the installation.
#[tokio::test]
async fn no_function_of_mailrooms_is_to_be_dropped_where_others_own_it() -> Result<()> {
    let handed_over = "CREATE ROLE heir;
        DO $$
        DECLARE
            statement text;
        BEGIN
            FOR statement IN
                SELECT format('ALTER TABLE %s OWNER TO heir', oid::regclass) FROM pg_class
                WHERE relnamespace = 'mailroom'::regnamespace AND relkind IN ('r', 'v')
            LOOP
                EXECUTE statement;
            END LOOP;
        END;
        $$;
        ALTER SCHEMA mailroom OWNER TO heir";
    let one = "CREATE ROLE heir; ALTER FUNCTION mailroom.browser_code(bytea) OWNER TO heir";
    for (change, named, new_owner) in
        [(handed_over, "mailroom.enqueue(", "heir"), (one, "mailroom.browser_code(", "owner")]
    {
        let place = Place::migrated().await?;
        place.superuser.batch_execute(change).await?;
        let text = place.rows(&warnings()).await?.join("\n");
        assert!(
            text.contains(&format!("if a fresh installation has the routine {named}")),
            "{text}"
        );
        assert!(text.contains(&format!(" OWNER TO {new_owner}")), "{text}");
        assert!(!text.contains("DROP"), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn the_right_on_the_schema_that_a_restore_loses_is_named() -> Result<()> {
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute(&format!("SET search_path = mail; {}", documented_grants("mail")?))
        .await?;
    assert_eq!(place.warnings()?.join("\n"), "");
    place.superuser.batch_execute("REVOKE USAGE ON SCHEMA mailroom FROM PUBLIC").await?;
    let text = place.warnings()?.join("\n");
    let sentence = "the roles application, collector without the right USAGE on the schema \
                    mailroom can call none of its functions, perhaps because a dump was restored \
                    without privileges; GRANT USAGE ON SCHEMA mailroom TO PUBLIC";
    assert!(text.contains(sentence), "{text}");
    place.mend().await?;
    assert_eq!(place.warnings()?.join("\n"), "");
    Ok(())
}

#[tokio::test]
async fn a_role_whose_members_all_have_the_right_on_the_schema_is_not_named() -> Result<()> {
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute(
            "CREATE ROLE caller NOLOGIN; GRANT EXECUTE ON FUNCTION mailroom.enqueue TO caller;
            CREATE ROLE user_of_schemas NOLOGIN;
            REVOKE USAGE ON SCHEMA mailroom FROM PUBLIC;
            GRANT USAGE ON SCHEMA mailroom TO user_of_schemas;
            CREATE ROLE site LOGIN IN ROLE caller, user_of_schemas",
        )
        .await?;
    assert_eq!(place.warnings()?.join("\n"), "");
    let named = "the role caller without the right USAGE on the schema mailroom";
    // One who logs in and inherits nothing, or who lacks the right.
    for member in ["NOINHERIT IN ROLE caller, user_of_schemas", "IN ROLE caller"] {
        place.superuser.batch_execute(&format!("CREATE ROLE other LOGIN {member}")).await?;
        let text = place.warnings()?.join("\n");
        assert!(text.contains(named), "{member}: {text}");
        place.superuser.batch_execute("DROP ROLE other").await?;
    }
    Ok(())
}
