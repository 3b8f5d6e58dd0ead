//! Rights on what is Mailroom's that no document gives are named with the statements that end them.

mod owners;
mod sets;

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::preflight::{Place, documented_grants, run};

const NAMED: &str = "that no document gives";
/// What finds rights that no document gives, as the program asks it.
fn warnings() -> String {
    let rights = include_str!("../../../../collector/src/rights.json");
    let warnings = include_str!("../../../../collector/src/preflight/warnings.sql");
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
