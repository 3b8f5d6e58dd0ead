//! Rights on what is Mailroom's that no document gives are named with the statements that end them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use mailroom_tests::book;
use mailroom_tests::postgres::Database;
use serde_json::Value;

use crate::preflight::{Place, documented_grants, run};

const NAMED: &str = "that no document gives";
/// What finds rights that no document gives, as the program asks it.
fn warnings() -> String {
    let rights = include_str!("../../../collector/src/rights.json");
    let warnings = include_str!("../../../collector/src/preflight/warnings.sql");
    warnings.replace("$1::text", &format!("'{rights}'"))
}

impl Place {
    /// What `mailroom status` warns of.
    fn warnings(&self) -> Result<Vec<String>> {
        let said = run(&self.in_mail("owner"), &["status", "--json"])?;
        let said: Value = serde_json::from_slice(&said.stdout)?;
        let warnings = said["warnings"].as_array().context("it has warnings")?;
        Ok(warnings.iter().filter_map(|warning| Some(warning.as_str()?.to_owned())).collect())
    }

    /// Executes the statements of the warnings, as the schema's owner.
    async fn mend(&self) -> Result<()> {
        let (owner, connection) =
            tokio_postgres::connect(&self.in_mail("owner"), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        for warning in self.warnings()? {
            for statement in warning.split("; ").skip(1) {
                owner.batch_execute(statement).await.with_context(|| statement.to_owned())?;
            }
        }
        Ok(())
    }

    async fn rows(&self, query: &str) -> Result<Vec<String>> {
        let rows = self.superuser.query(query, &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

/// What a role or PUBLIC may do with a relation, a column of it, a function that runs with the
/// rights of its owner, or the schema.
const OPEN: &str = "
    SELECT DISTINCT format('%s %s on %s', grantee::regrole, privilege_type, name)
    FROM (
        SELECT relname, acl
        FROM pg_class CROSS JOIN LATERAL (
            SELECT relacl
            UNION ALL SELECT attacl FROM pg_attribute WHERE attrelid = pg_class.oid
        ) AS on_it (acl)
        WHERE relnamespace IN ('mail'::regnamespace, 'mailroom'::regnamespace)
        UNION ALL
        SELECT oid::regprocedure::text, coalesce(proacl, acldefault('f', proowner))
        FROM pg_proc
        WHERE pronamespace IN ('mail'::regnamespace, 'mailroom'::regnamespace) AND prosecdef
        UNION ALL
        SELECT nspname, nspacl FROM pg_namespace WHERE nspname = 'mailroom'
    ) AS object (name, acl)
    CROSS JOIN LATERAL aclexplode(acl)
    WHERE grantee <> 'owner'::regrole AND (privilege_type <> 'USAGE' OR name <> 'mailroom')
    ORDER BY 1";

#[tokio::test]
async fn what_status_prints_ends_all_rights_that_no_document_gives() -> Result<()> {
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute(&format!("SET search_path = mail; {}", documented_grants("mail")?))
        .await?;
    assert!(!place.warnings()?.join("\n").contains(NAMED));
    // As after a restore without privileges, on a server with default privileges, with a role that
    // reads everything, and one that was given a column.
    place
        .superuser
        .batch_execute(
            "SET ROLE owner;
            CREATE FUNCTION user_changed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
                BEGIN PERFORM mailroom.cancel_subject(OLD.id::text); RETURN NULL; END $$;
            RESET ROLE;
            CREATE ROLE anon; CREATE ROLE reporter; CREATE ROLE reader; CREATE ROLE site;
            DROP OWNED BY collector, application;
            GRANT ALL ON SCHEMA mailroom TO anon, PUBLIC;
            GRANT ALL ON ALL TABLES IN SCHEMA mail, mailroom TO anon, PUBLIC;
            GRANT ALL ON ALL SEQUENCES IN SCHEMA mail, mailroom TO anon, PUBLIC;
            GRANT ALL ON ALL ROUTINES IN SCHEMA mail, mailroom TO anon, PUBLIC;
            GRANT EXECUTE ON ALL ROUTINES IN SCHEMA mailroom TO reporter WITH GRANT OPTION;
            SET ROLE reporter;
            GRANT EXECUTE ON FUNCTION mailroom.claim TO reader;
            RESET ROLE;
            GRANT SELECT ON ALL TABLES IN SCHEMA mailroom TO reporter;
            GRANT SELECT (secret, code) ON mailroom.queue TO reader;
            GRANT UPDATE (consumed_at) ON tokens TO site;
            GRANT SELECT ON mailroom.waiting TO site",
        )
        .await?;
    let text = place.warnings()?.join("\n");
    for sentence in [
        "everybody has rights that no document gives: ",
        "REVOKE ALL ON ALL ROUTINES IN SCHEMA mailroom FROM PUBLIC",
        "REVOKE CREATE ON SCHEMA mailroom FROM PUBLIC",
        "the role anon has rights that no document gives one role: ",
        "TRIGGER, TRUNCATE on accounts, and UPDATE on accounts_id_seq, and EXECUTE on functions of \
         the schema mailroom, and ",
        "(afterwards grant it the documented roles that it needs, such as application)",
        "REVOKE ALL ON ALL ROUTINES IN SCHEMA mailroom FROM anon",
        "REVOKE ALL ON ROUTINE user_changed() FROM anon",
        "REVOKE ALL ON ALL ROUTINES IN SCHEMA mailroom FROM reporter CASCADE",
        "REVOKE ALL ON mailroom.adopted_tokens FROM reporter",
        "the role reader has rights that no document gives: ",
        "REVOKE ALL ON mailroom.queue FROM reader",
        "if it is neither of the two, take all by REVOKE ALL ON accounts, jobs, tokens FROM anon",
    ] {
        assert!(text.contains(sentence), "{sentence} in {text}");
    }
    assert!(!text.contains("site"), "{text}");
    place.mend().await?;
    let text = place.warnings()?.join("\n");
    assert!(!text.contains(NAMED), "{text}");
    let views = ["delivery_attempts", "deliveries", "suppressed_addresses", "waiting"];
    let mut left =
        BTreeSet::from(["site SELECT on waiting", "site UPDATE on tokens"].map(String::from));
    left.extend(
        views
            .iter()
            .flat_map(|view| ["reporter", "anon"].map(|role| format!("{role} SELECT on {view}"))),
    );
    // What an application of the base schema or a cursor may have.
    for (relations, rights) in [
        (&["accounts", "tokens"][..], &["DELETE", "INSERT", "REFERENCES", "SELECT", "UPDATE"][..]),
        (&["jobs"], &["SELECT", "UPDATE"]),
        (&["schema_migrations"], &["SELECT"]),
        (&["accounts_id_seq", "tokens_id_seq"], &["SELECT", "USAGE"]),
    ] {
        left.extend(relations.iter().flat_map(|relation| {
            rights.iter().map(move |right| format!("anon {right} on {relation}"))
        }));
    }
    assert_eq!(BTreeSet::from_iter(place.rows(OPEN).await?), left);
    Ok(())
}

#[tokio::test]
async fn a_migration_names_them_too() -> Result<()> {
    let place = Place::migrated().await?;
    place.superuser.batch_execute("GRANT EXECUTE ON FUNCTION mailroom.claim TO PUBLIC").await?;
    let said = run(&place.in_mail("owner"), &["migrate", "up"])?;
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(text.contains("REVOKE ALL ON ALL ROUTINES IN SCHEMA mailroom FROM PUBLIC"), "{text}");
    Ok(())
}

/// The functions that documents grant, by the role that they call it.
fn documented_sets() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut sets = book::granted_functions()?;
    sets.retain(|_, names| !names.is_empty());
    // By the setting MAILROOM_SUPPRESS_UNKNOWN.
    sets.get_mut("collector").context("there are collectors")?.insert("suppress".to_owned());
    Ok(sets)
}

#[tokio::test]
async fn a_role_may_have_the_functions_of_one_set_of_the_documents() -> Result<()> {
    let sets = documented_sets()?;
    let roles: Vec<_> = sets.keys().map(String::as_str).collect();
    let all = [
        "application",
        "bounces",
        "collector",
        "operator",
        "privacy",
        "server",
        "support",
        "viewer",
    ];
    assert_eq!(roles, all);
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let role = format!("{}_role", database.name());
    client.batch_execute(&format!("CREATE ROLE {role}")).await?;
    let functions = "SELECT DISTINCT proname::text FROM pg_proc
        WHERE pronamespace = 'mailroom'::regnamespace AND prosecdef";
    let functions: Vec<String> =
        client.query(functions, &[]).await?.iter().map(|row| row.get(0)).collect();
    for (whose, set) in &sets {
        let granted: Vec<_> = set.iter().map(|name| format!("mailroom.{name}")).collect();
        client
            .batch_execute(&format!(
                "REVOKE ALL ON ALL ROUTINES IN SCHEMA mailroom FROM {role};
                GRANT EXECUTE ON FUNCTION {} TO {role}",
                granted.join(", ")
            ))
            .await?;
        for function in &functions {
            client
                .batch_execute(&format!(
                    "BEGIN; GRANT EXECUTE ON FUNCTION mailroom.{function} TO {role}"
                ))
                .await?;
            let rows = client.query(&warnings(), &[]).await?;
            let is_named = rows.iter().any(|row| row.get::<_, &str>(0).contains(&role));
            client.batch_execute("ROLLBACK").await?;
            let all: BTreeSet<_> = set.iter().chain([function]).cloned().collect();
            let is_documented = sets.values().any(|other| all.is_subset(other));
            assert_eq!(is_named, !is_documented, "{function} beside the functions of {whose}");
        }
    }
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    Ok(())
}

#[tokio::test]
async fn a_role_that_is_application_and_operator_has_both_by_membership() -> Result<()> {
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute(&format!(
            "SET search_path = mail; {};
            CREATE ROLE operator NOLOGIN;
            GRANT EXECUTE ON FUNCTION mailroom.status, mailroom.retry TO operator;
            CREATE ROLE site LOGIN IN ROLE application, operator;
            CREATE ROLE direct LOGIN;
            GRANT EXECUTE ON FUNCTION mailroom.enqueue, mailroom.status TO direct",
            documented_grants("mail")?
        ))
        .await?;
    let text = place.warnings()?.join("\n");
    assert_eq!(text.matches(NAMED).count(), 1, "{text}");
    assert!(text.contains("REVOKE ALL ON ALL ROUTINES IN SCHEMA mailroom FROM direct"), "{text}");

    place.mend().await?;
    place.superuser.batch_execute("GRANT application, operator TO direct").await?;
    assert!(!place.warnings()?.join("\n").contains(NAMED));
    let calls = "SELECT has_function_privilege('direct', oid, 'EXECUTE')::text FROM pg_proc
        WHERE oid IN ('mailroom.status'::regproc, 'mailroom.enqueue'::regproc)";
    assert_eq!(place.rows(calls).await?, ["true", "true"]);
    Ok(())
}

#[tokio::test]
async fn a_login_that_claims_and_redeems_by_two_roles_is_named() -> Result<()> {
    let place = Place::migrated().await?;
    place
        .superuser
        .batch_execute(&format!(
            "SET search_path = mail; {};
            CREATE ROLE group_of_collectors IN ROLE collector;
            CREATE ROLE daemon LOGIN IN ROLE group_of_collectors;
            CREATE ROLE site LOGIN IN ROLE application;
            CREATE ROLE administrator LOGIN IN ROLE collector, application, owner",
            documented_grants("mail")?
        ))
        .await?;
    assert_eq!(place.warnings()?.join("\n"), "");
    for both in ["LOGIN", "LOGIN NOINHERIT"] {
        place
            .superuser
            .batch_execute(&format!(
                "CREATE ROLE \"Both\" {both} IN ROLE group_of_collectors, application"
            ))
            .await?;
        let text = place.warnings()?.join("\n");
        let sentence = "the role \"Both\" has application and collector, and so claims mails and \
                        redeems their tokens";
        assert!(text.contains(sentence), "{both}: {text}");
        place.superuser.batch_execute("DROP ROLE \"Both\"").await?;
        assert_eq!(place.warnings()?.join("\n"), "");
    }
    Ok(())
}

#[tokio::test]
async fn an_application_of_the_base_schema_keeps_what_it_needs() -> Result<()> {
    let place = Place::migrated().await?;
    let rights =
        "SELECT string_agg(right_name, ' ' ORDER BY right_name) FROM unnest(ARRAY['DELETE',
            'INSERT', 'REFERENCES', 'SELECT', 'TRIGGER', 'TRUNCATE', 'UPDATE']) AS right_name
        WHERE has_table_privilege('product', 'mail.accounts', right_name)";
    place
        .superuser
        .batch_execute(
            "CREATE ROLE product LOGIN;
            GRANT SELECT, INSERT, UPDATE, DELETE, REFERENCES ON mail.accounts, mail.tokens
                TO product",
        )
        .await?;
    assert_eq!(place.warnings()?.join("\n"), "");
    place
        .superuser
        .batch_execute(
            "GRANT ALL ON ALL TABLES IN SCHEMA mail TO product;
            GRANT SELECT, UPDATE ON mail.accounts TO product WITH GRANT OPTION",
        )
        .await?;
    let text = place.warnings()?.join("\n");
    for part in [
        "the role product has rights that no document gives: ",
        "TRIGGER, TRUNCATE, the option to grant SELECT, the option to grant UPDATE on accounts",
        "an application of the base schema may have SELECT, INSERT, UPDATE, DELETE and REFERENCES",
        "REVOKE GRANT OPTION FOR SELECT, UPDATE ON accounts FROM product CASCADE",
        "TRIGGER, TRUNCATE ON tokens FROM product",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    place.mend().await?;
    assert_eq!(place.warnings()?.join("\n"), "");
    let left = place.rows(rights).await?;
    assert_eq!(left, ["DELETE INSERT REFERENCES SELECT UPDATE"]);
    Ok(())
}

#[tokio::test]
async fn the_record_of_a_products_own_migrations_is_not_judged() -> Result<()> {
    for (table, owner, is_named) in [
        ("version bigint PRIMARY KEY, dirty boolean NOT NULL", "owner", true),
        ("version varchar PRIMARY KEY", "owner", false),
        ("version bigint PRIMARY KEY, dirty boolean NOT NULL", "product", false),
    ] {
        let place = Place::new().await?;
        let up = ["migrate", "up", "--migrations-table", "mailroom_migrations"];
        assert!(run(&place.in_mail("owner"), &up)?.status.success());
        place
            .superuser
            .batch_execute(&format!(
                "CREATE ROLE product LOGIN; CREATE TABLE mail.schema_migrations ({table});
                ALTER TABLE mail.schema_migrations OWNER TO {owner};
                CREATE ROLE deployer; GRANT ALL ON mail.schema_migrations TO deployer"
            ))
            .await?;
        let text = place.warnings()?.join("\n");
        assert_eq!(text.contains("deployer"), is_named, "{table} of {owner}: {text}");
    }
    Ok(())
}

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
