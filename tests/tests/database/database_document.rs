//! The examples of SQL in the book work as they stand there.

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::{book, program, tools};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::any_account::without_accounts;

/// The pages with examples. Each chapter of these begins with an empty database without accounts.
const PAGES: [&str; 7] = [
    "reference/sql.md",
    "guides/scanners.md",
    "guides/actions.md",
    "guides/notices.md",
    "guides/change-data-capture.md",
    "guides/own-users.md",
    "operate/personal-data.md",
];

/// These share one database with accounts, in this order.
const PAGES_WITH_ACCOUNTS: [&str; 3] =
    ["guides/accounts.md", "operate/rights.md", "reference/tables.md"];

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
    page: &'static str,
    line: usize,
    chapter: String,
    sql: String,
    answer: String,
}

/// The fenced blocks of a page, in order; `\i FILE` stands for that file of the folder `docs`, as
/// in psql.
fn examples(page: &'static str) -> Result<Vec<Example>> {
    let docs = tools::workspace().join("docs");
    let document = book::page(page)?;
    let mut examples = Vec::new();
    let mut open: Option<Example> = None;
    let mut chapter = String::new();
    for (index, line) in document.lines().enumerate() {
        match (&mut open, line) {
            (None, "```sql") => {
                open = Some(Example {
                    page,
                    line: index + 1,
                    chapter: chapter.clone(),
                    ..Example::default()
                });
            }
            (None, _) => {
                ensure!(
                    !line.starts_with("```"),
                    "{page}, line {}: `{line}` is never looked at",
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
    ensure!(open.is_none(), "the last block of {page} does not end");
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
async fn every_example_works_in_the_order_of_its_page() -> Result<()> {
    // A server of its own, because roles belong to the whole server.
    let cluster = Cluster::start()?;
    let mut answered = 0;
    for page in PAGES {
        let mut chapter = None;
        let mut place = None;
        for example in examples(page)? {
            if chapter.as_ref() != Some(&example.chapter) {
                chapter = Some(example.chapter.clone());
                let database = without_accounts(Database::create_on(&cluster.url("postgres"))?)?;
                let client = database.connect().await?;
                place = Some((database, client));
            }
            let (_, client) = place.as_ref().context("a chapter has a database")?;
            check(client, &example).await?;
            answered += usize::from(!example.answer.is_empty());
        }
    }
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let client = database.connect().await?;
    for page in PAGES_WITH_ACCOUNTS {
        let examples = examples(page)?;
        ensure!(!examples.is_empty(), "{page} has no example");
        for example in examples {
            check(&client, &example).await?;
            answered += usize::from(!example.answer.is_empty());
        }
    }
    ensure!(answered >= 10, "only {answered} examples with answers were found");
    Ok(())
}

/// Executes one example and compares what it answers.
async fn check(client: &Client, example: &Example) -> Result<()> {
    let answer = execute(client, &example.sql)
        .await
        .with_context(|| format!("{}, line {}", example.page, example.line))?;
    ensure!(
        answer == example.answer,
        "{}, line {}: {answer:?}, not {:?}",
        example.page,
        example.line,
        example.answer
    );
    Ok(())
}

#[test]
fn no_other_page_has_examples_that_are_not_executed() -> Result<()> {
    for path in book::pages()? {
        let name = path.display().to_string();
        let is_executed = PAGES.iter().chain(&PAGES_WITH_ACCOUNTS).any(|page| name.ends_with(page));
        // What the two pages for a start show is executed as a whole.
        let is_start = name.contains("/docs/start/");
        let text = std::fs::read_to_string(&path)?;
        ensure!(
            is_executed || is_start || !text.contains("```sql"),
            "{name} is executed by no test"
        );
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
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "sql") {
            files.push(Some(path));
        }
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
    let document = [book::page("guides/own-users.md")?, book::page("operate/rights.md")?].concat();
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
    let mut document = String::new();
    for page in PAGES.iter().chain(&PAGES_WITH_ACCOUNTS) {
        document.push_str(&book::page(page)?);
    }
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
                'request', 'browser_code', 'renew_link')
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
