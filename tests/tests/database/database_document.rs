//! The examples of docs/DATABASE.md work as they stand there.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::{program, tools};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::any_account::without_accounts;

/// The chapter that begins with a database with accounts, which those after it use, too. Chapters
/// before it have one without each.
const WITH_ACCOUNTS: &str = "Accounts";

/// What tables do that the document names without an example.
const ADOPTED: [(&str, &str); 2] = [
    (
        "auth_user.sql",
        "
INSERT INTO auth_user VALUES (1, '!', NULL, false, 'ada', '', '', 'ada@example.test', false,
    false, now());
SELECT mailroom.enqueue(action, email, username, id::text)
    FROM auth_user, unnest(ARRAY['activate', 'recover']) AS action;
--> 1
--> 2
SELECT verdict FROM mailroom.redeem((SELECT secret FROM mailroom.queue
    WHERE token = 2), 'recover'); --> not_eligible
SELECT verdict, subject_id FROM mailroom.redeem((SELECT secret FROM mailroom.queue
    WHERE token = 1), 'activate'); --> ok | 1
UPDATE auth_user SET is_active = true WHERE id = 1;
SELECT verdict FROM mailroom.redeem((SELECT secret FROM mailroom.queue), 'recover', (SELECT code
    FROM mailroom.queue)); --> ok
",
    ),
    (
        "customers.sql",
        "
INSERT INTO customers (region, email) VALUES ('north', 'ada@example.test'), ('south',
    'eve@example.test');
UPDATE customers SET region = 'south';
SELECT token, subject_id, recipient_email FROM mailroom.queue JOIN mailroom.issued_tokens
    ON id = token ORDER BY token;
--> 1 | 1 | ada@example.test
--> 2 | 2 | eve@example.test
UPDATE customers SET email = 'ada@new.test', region = 'north' WHERE id = 1;
DELETE FROM customers WHERE id = 2;
SELECT string_agg(state, ', ') FROM mailroom.deliveries; --> cancelled, cancelled
",
    ),
];

/// A block of SQL, and the rows that the document says it answers, each after `-->`.
#[derive(Debug, Default)]
struct Example {
    line: usize,
    chapter: String,
    sql: String,
    answer: String,
}

/// The fenced blocks of DATABASE.md in the folder `docs`, in order; `\i FILE` stands for that file,
/// as in psql.
fn examples(docs: &Path) -> Result<Vec<Example>> {
    let document = std::fs::read_to_string(docs.join("DATABASE.md"))?;
    let mut examples = Vec::new();
    let mut open: Option<Example> = None;
    let mut chapter = String::new();
    for (index, line) in document.lines().enumerate() {
        match (&mut open, line) {
            (None, "```sql") => {
                open = Some(Example {
                    line: index + 1,
                    chapter: chapter.clone(),
                    ..Example::default()
                });
            }
            (None, _) => {
                ensure!(
                    !line.starts_with("```"),
                    "line {}: `{line}` is never looked at",
                    index + 1
                );
                if line.starts_with('#') {
                    line.trim_start_matches(['#', ' ']).clone_into(&mut chapter);
                }
            }
            (Some(_), "```") => examples.extend(open.take()),
            (Some(example), _) => {
                match line.strip_prefix("\\i ") {
                    Some(file) => example.sql.push_str(&std::fs::read_to_string(docs.join(file))?),
                    None => example.sql.push_str(line),
                }
                example.sql.push('\n');
                if let Some((_, row)) = line.split_once("--> ") {
                    example.answer.push_str(row);
                    example.answer.push('\n');
                }
            }
        }
    }
    ensure!(open.is_none(), "the last block does not end");
    Ok(examples)
}

/// Executes statements and returns the rows of all of them, as the document writes them: what a
/// void function answers is no row.
async fn execute(client: &Client, sql: &str) -> Result<String> {
    let mut rows = String::new();
    for message in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            let values: Vec<_> =
                (0..row.len()).map(|column| row.get(column).unwrap_or("null")).collect();
            if values != [""] {
                rows.push_str(&values.join(" | "));
                rows.push('\n');
            }
        }
    }
    Ok(rows)
}

#[tokio::test]
async fn every_example_works_in_the_order_of_the_document() -> Result<()> {
    let examples = examples(&tools::workspace().join("docs"))?;
    ensure!(
        examples.iter().filter(|example| !example.answer.is_empty()).count() >= 6,
        "the examples were not found"
    );
    // A server of its own, because roles belong to the whole server.
    let cluster = Cluster::start()?;
    let mut chapters = Vec::new();
    let mut database = Database::create_on(&cluster.url("postgres"))?;
    let mut client = database.connect().await?;
    for example in examples {
        if chapters.last() != Some(&example.chapter) {
            if !chapters.iter().any(|chapter| chapter == WITH_ACCOUNTS) {
                database = Database::create_on(&cluster.url("postgres"))?;
                database = match example.chapter.as_str() {
                    WITH_ACCOUNTS => database.migrate()?,
                    _ => without_accounts(database)?,
                };
                client = database.connect().await?;
            }
            chapters.push(example.chapter);
        }
        let answer = match execute(&client, &example.sql).await {
            Ok(answer) => answer,
            Err(error) => panic!("line {}: {error:?}", example.line),
        };
        assert_eq!(answer, example.answer, "line {}", example.line);
    }
    for adoption in ["By explicit call", "By trigger", WITH_ACCOUNTS] {
        assert!(chapters.iter().any(|chapter| chapter == adoption), "{adoption}");
    }
    Ok(())
}

#[tokio::test]
async fn tables_of_django_and_partitioned_tables_are_adopted() -> Result<()> {
    for (file, statements) in ADOPTED {
        let database = without_accounts(Database::create()?)?;
        let client = database.connect().await?;
        let adoption = tools::workspace().join("docs/examples").join(file);
        execute(&client, &std::fs::read_to_string(adoption)?).await?;
        let expected = statements.lines().filter_map(|line| Some(line.split_once("--> ")?.1));
        let expected: Vec<_> = expected.collect();
        assert_eq!(
            execute(&client, statements).await?.lines().collect::<Vec<_>>(),
            expected,
            "{file}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn no_function_that_runs_with_the_rights_of_its_owner_is_everybodys() -> Result<()> {
    let everybodys = "SELECT oid::regprocedure::text
        FROM pg_proc CROSS JOIN LATERAL aclexplode(coalesce(proacl, acldefault('f', proowner)))
        WHERE prosecdef AND grantee = 0";
    let folder = tools::workspace().join("docs/examples");
    let mut files = vec![None];
    for entry in std::fs::read_dir(&folder)? {
        files.push(Some(entry?.path()));
    }
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        let database = match file {
            Some(_) => without_accounts(Database::create()?)?,
            None => Database::migrated()?,
        };
        let client = database.connect().await?;
        if let Some(file) = &file {
            let example = std::fs::read_to_string(file)?;
            if example.starts_with("-- After users.sql") {
                client.batch_execute(&std::fs::read_to_string(folder.join("users.sql"))?).await?;
            }
            client.batch_execute(&example).await?;
        }
        let rows = client.query(everybodys, &[]).await?;
        let names: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
        assert!(names.is_empty(), "{names:?} of {file:?}");
    }
    Ok(())
}

#[tokio::test]
async fn two_owners_adopt_a_table_by_the_statements_of_the_document() -> Result<()> {
    let docs = tools::workspace().join("docs");
    let document = std::fs::read_to_string(docs.join("DATABASE.md"))?;
    let between = |start: &str, end: &str| -> Result<&str> {
        let from = document.find(start).context("the document has its statements")?;
        let length = document[from..].find(end).context("they end")?;
        Ok(&document[from..from + length])
    };
    let roles = between("CREATE ROLE application NOLOGIN;", "-- With accounts")?;
    let membership = between("GRANT application TO shop_owner;", "--")?;
    let grants = between("GRANT USAGE ON SCHEMA shop", "--")?;
    let file = std::fs::read_to_string(docs.join("examples/users.sql"))?;
    let (before, rest) = file.split_once("UPDATE mailroom.actions").context("it has an UPDATE")?;
    let (update, after) = rest.split_once(';').context("which ends")?;

    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?;
    let superuser = database.connect().await?;
    let name = database.name();
    superuser
        .batch_execute(&format!(
            "CREATE ROLE shop_owner LOGIN; CREATE ROLE mailroom_owner LOGIN;
            GRANT CREATE ON DATABASE {name} TO shop_owner, mailroom_owner"
        ))
        .await?;
    let migrated = program::mailroom()?
        .args(["migrate", "up", "--without-accounts"])
        .env("MAILROOM_DATABASE_URL", database.url_of("mailroom_owner"))
        .output()?;
    ensure!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    let shop_owner = database.connect_as("shop_owner").await?;
    let mailroom_owner = database.connect_as("mailroom_owner").await?;

    superuser.batch_execute(&format!("{roles} {membership}")).await?;
    shop_owner.batch_execute(&format!("{before} {after}")).await?;
    shop_owner.batch_execute(grants).await?;
    mailroom_owner.batch_execute(&format!("UPDATE mailroom.actions {update}")).await?;

    let enqueued = "WITH made AS (
            INSERT INTO shop.users (email, name) VALUES ('ada@example.test', 'Ada') RETURNING *
        )
        SELECT mailroom.enqueue('activate', email, name, id::text) FROM made";
    assert_eq!(execute(&shop_owner, enqueued).await?, "1\n");
    let secret: Vec<u8> =
        superuser.query_one("SELECT secret FROM mailroom.queue", &[]).await?.get(0);
    let redeemed = shop_owner
        .query_one("SELECT verdict::text FROM mailroom.redeem($1, 'activate')", &[&secret])
        .await?;
    assert_eq!(redeemed.get::<_, &str>(0), "ok");
    Ok(())
}

#[tokio::test]
async fn the_tables_of_the_document_name_all_that_is_there() -> Result<()> {
    let document = std::fs::read_to_string(tools::workspace().join("docs/DATABASE.md"))?;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let query = "
        WITH own AS (
            SELECT oid, relname::text FROM pg_class
            WHERE relnamespace = 'mailroom'::regnamespace AND relkind IN ('r', 'v')
                AND relname NOT IN ('adopted_accounts', 'adopted_tokens')
        )
        SELECT relname FROM own
        UNION SELECT attname::text FROM own JOIN pg_attribute ON attrelid = own.oid
            AND attnum > 0 AND NOT attisdropped
            WHERE relname <> 'deliveries'
        UNION SELECT enumlabel::text FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid
            WHERE typnamespace = 'mailroom'::regnamespace
        UNION SELECT parameter FROM pg_proc, unnest(proargnames) AS parameter
            WHERE pronamespace = 'mailroom'::regnamespace
                AND proname IN ('enqueue', 'redeem', 'cancel', 'cancel_subject', 'recheck',
                'request', 'browser_code')
                AND parameter NOT IN ('secret', 'verdict')
        UNION SELECT DISTINCT proname::text FROM pg_proc, aclexplode(proacl) AS granted
            WHERE pronamespace = 'mailroom'::regnamespace AND prosecdef
                AND prorettype <> 'trigger'::regtype
                AND proname NOT LIKE '%\\_accounts'";
    let rows = client.query(query, &[]).await?;
    assert!(rows.len() > 50, "{} names", rows.len());
    for row in rows {
        let name: &str = row.get(0);
        let forms = [
            "`NAME`",
            "`NAME(",
            "NAME,",
            "NAME\n",
            "mailroom.NAME`",
            "mailroom.NAME(",
            "mailroom.NAME TO",
        ];
        let quoted = forms.map(|form| form.replace("NAME", name));
        assert!(quoted.iter().any(|quoted| document.contains(quoted)), "`{name}` is not described");
    }
    Ok(())
}
