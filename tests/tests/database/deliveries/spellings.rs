//! One mailbox has one form, however its address is spelled: what the database compares is what the
//! sender addresses.

use anyhow::{Context, Result, ensure};
use mailroom::queue::Queue;
use mailroom_mail::addressed;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::sending::{Configuration, Sending, batch};
use proptest::prelude::{Strategy, prop};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{all, at, log, queue, state};

/// Spellings of three mailboxes, by what a sender may make of them;
/// each mailbox in its normal form first.
const SPELLINGS: [&[&str]; 3] = [
    &[
        "ada@example.org",
        "Ada@Example.org",
        "ada@\u{ff45}xample.org",
        "ada@example.org\u{200b}",
        "ada@\u{ad}example.org",
        "ada@EXAMPLE\u{3002}org",
        "ada@example\u{ff61}org",
        "ada@e\u{200d}xample.org",
        "ada@ex\u{fe0f}ample.org",
        "ada@\u{1d5be}xample.org",
        "ada@example.org.",
        "ada\u{200b}@example.org",
        "\u{feff}ada@example.org",
        "\u{202a}ada@example.org",
        "\u{ff41}da@example.org",
        "\"ada\"@example.org",
        "ada(x)@example.org",
        "<ada@example.org>",
        "Ada <ada@example.org>",
        " ada@example.org",
    ],
    &[
        "ada@xn--bcher-kva.example",
        "ada@b\u{fc}cher.example",
        "ada@B\u{dc}CHER.example",
        "ada@bu\u{308}cher.example",
        "ada@XN--BCHER-KVA.example",
        "ada@b\u{fc}\u{ad}cher.example",
        "ADA@b\u{ff55}\u{308}cher.example",
    ],
    &[
        "j\u{f6}rg@example.org",
        "J\u{d6}RG@example.org",
        "jo\u{308}rg@example.org",
        "j\u{f6}\u{200b}rg@Example.org",
    ],
];

async fn suppress(client: &Client, address: &str) -> Result<bool> {
    Ok(client.query_one("SELECT mailroom.suppress($1, 'complaint')", &[&address]).await?.get(0))
}

#[tokio::test]
async fn no_spelling_of_a_suppressed_address_is_mailed_whether_it_is_registered_or_enqueued()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut queue = queue(&database).await?;
    for spellings in SPELLINGS {
        ensure!(suppress(&client, spellings[0]).await?, "{}", spellings[0]);
        for spelling in spellings {
            // Nobody's registration fails by it.
            let register =
                "INSERT INTO accounts (email, login) VALUES ($1, gen_random_uuid()::text)";
            client.execute(register, &[spelling]).await?;
            if let Err(error) =
                client.query("SELECT mailroom.enqueue('invite', $1)", &[spelling]).await
            {
                assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{spelling:?}");
            }
        }
    }
    let claimed = queue.settle_and_claim(Vec::new(), all(100)).await?.batches;
    let claimed: Vec<_> = claimed.iter().flat_map(|batch| &batch.tokens).collect();
    ensure!(claimed.is_empty(), "{claimed:?}");
    let ends = "SELECT state || ': ' || reason FROM mailroom.deliveries GROUP BY 1 ORDER BY 1";
    let ends: Vec<String> = client.query(ends, &[]).await?.iter().map(|row| row.get(0)).collect();
    let expected = [
        "cancelled: the address of its account is not one that mail can be sent to",
        "dead: its address is suppressed (complaint)",
    ];
    assert_eq!(ends, expected);
    Ok(())
}

#[tokio::test]
async fn a_suppression_by_any_form_of_an_address_holds_for_all_and_any_form_lifts_it() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    for spellings in SPELLINGS {
        let forms = spellings.iter().filter(|form| addressed(form).is_some());
        for (form, other) in
            forms.clone().flat_map(|form| forms.clone().map(move |other| (form, other)))
        {
            ensure!(suppress(&client, form).await?, "{form}");
            ensure!(!suppress(&client, other).await?, "{form} {other}");
            let lift = "SELECT mailroom.lift_suppression($1)";
            ensure!(client.query_one(lift, &[other]).await?.get::<_, bool>(0), "{form} {other}");
        }
    }
    Ok(())
}

/// What the database says of addresses: whether they are, and their normal form.
async fn judged(client: &Client, addresses: &[String]) -> Result<Vec<(bool, Option<String>)>> {
    let query = "SELECT mailroom.is_address(address), mailroom.normal_address(address)
        FROM unnest($1::text[]) WITH ORDINALITY AS given (address, nth) ORDER BY nth";
    let rows = client.query(query, &[&addresses]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

fn ensure_agreement(addresses: &[String], judged: Vec<(bool, Option<String>)>) -> Result<usize> {
    let mut accepted = 0;
    for (address, (is_address, normal)) in addresses.iter().zip(judged) {
        let said = is_address.then_some(normal).flatten();
        ensure!(
            said == addressed(address),
            "{address:?}: {said:?}, the sender: {:?}",
            addressed(address)
        );
        accepted += usize::from(is_address);
    }
    Ok(accepted)
}

#[tokio::test]
async fn database_and_sender_agree_on_every_generated_address() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let pieces = [
        "a",
        "B",
        "0",
        "-",
        "_",
        ".",
        "..",
        "+",
        "@",
        "\"",
        "[",
        ",",
        " ",
        "\n",
        "xn--",
        "\u{fc}",
        "\u{dc}",
        "\u{df}",
        "u\u{308}",
        "\u{308}",
        "J\u{30c}",
        "\u{200b}",
        "\u{200d}",
        "\u{ad}",
        "\u{ff45}",
        "\u{3002}",
        "\u{65e5}\u{672c}",
        "\u{434}",
        "\u{414}",
        "\u{3b1}",
        "\u{3a3}",
        "\u{3c2}",
        "\u{160}",
        "\u{130}",
        "\u{202e}",
        "\u{1f4a9}",
        "\u{5d0}",
        "\u{661}",
        "\u{939}\u{93f}",
        "\u{e19}\u{e33}",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}",
    ];
    let part = || {
        prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..5)
            .prop_map(|part| part.concat())
    };
    let plain = || {
        prop::sample::select(vec!["a", "ada.l", "x.test", "\u{fc}.test", "B\u{dc}.x"])
            .prop_map(str::to_owned)
    };
    let either = || proptest::prop_oneof![part(), plain()];
    let address = (either(), either()).prop_map(|(local, domain)| format!("{local}@{domain}"));
    let mut runner = TestRunner::deterministic();
    let addresses = (0..4_000).map(|_| {
        let tree = address.new_tree(&mut runner).map_err(|reason| anyhow::anyhow!("{reason}"));
        // No capital of a letter that the database does not fold.
        Ok(tree?.current().replace('\u{130}', "I"))
    });
    let addresses = addresses.collect::<Result<Vec<_>>>()?;
    let accepted = ensure_agreement(&addresses, judged(&client, &addresses).await?)?;
    ensure!((400..3_000).contains(&accepted), "{accepted} addresses were taken");
    Ok(())
}

/// Characters of which the database knows less are refused;
/// none that it takes is another one for the sender.
#[tokio::test]
async fn no_character_that_the_database_takes_is_replaced_by_the_sender() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let characters = (0x80..0x3200)
        .chain((0x3200..0x1_0000).step_by(13))
        .chain((0x1_0000..0x3_2400).step_by(211));
    let addresses: Vec<_> = characters
        .filter_map(char::from_u32)
        .map(|character| format!("a@a{character}a.test"))
        .collect();
    let mut taken = 0;
    for (address, (is_address, normal)) in addresses.iter().zip(judged(&client, &addresses).await?)
    {
        // What Unicode has not assigned yet is nobody's; the sender refuses it.
        if let Some(addressed) = addressed(address).filter(|_| is_address) {
            assert_eq!(Some(addressed), normal, "{address:?}");
            taken += 1;
        }
        let is_ignored =
            "\u{ad}\u{34f}\u{61c}\u{180b}\u{200b}\u{2060}\u{3164}\u{fe0f}\u{feff}".chars();
        assert!(
            !is_address || !is_ignored.clone().any(|ignored| address.contains(ignored)),
            "{address:?}"
        );
        let refused = addressed(address).is_none();
        let assigned = ["a\u{ff45}a", "a\u{2460}a"].iter().any(|mapped| address.contains(mapped));
        assert!(!(is_address && refused && assigned), "{address:?}");
    }
    ensure!(taken > 4_000, "{taken}");
    Ok(())
}

/// Characters of each general category of Unicode.
const CATEGORIES: [(&str, &str); 30] = [
    ("Lu", "A\u{c4}\u{130}\u{414}\u{10a0}"),
    ("Ll", "a\u{df}\u{3c2}\u{434}"),
    ("Lt", "\u{1c5}\u{1f88}"),
    ("Lm", "\u{2b0}\u{e46}\u{3005}\u{30fc}"),
    ("Lo", "\u{aa}\u{5d0}\u{645}\u{939}\u{b95}\u{e01}\u{1000}\u{65e5}\u{ac00}\u{20000}"),
    ("Mn", "\u{301}\u{5b0}\u{64b}\u{902}\u{94d}\u{bcd}\u{e39}\u{e49}\u{103a}\u{3099}\u{fe0f}"),
    ("Mc", "\u{903}\u{93f}\u{bbf}\u{102c}"),
    ("Me", "\u{488}\u{20dd}"),
    ("Nd", "0\u{661}\u{966}\u{ff11}"),
    ("Nl", "\u{2160}\u{3007}\u{16ee}"),
    ("No", "\u{b2}\u{bd}\u{2460}\u{1369}"),
    ("Pc", "_\u{203f}\u{ff3f}"),
    ("Pd", "-\u{2010}\u{2014}\u{301c}"),
    ("Ps", "(\u{201a}\u{300c}"),
    ("Pe", ")\u{300d}"),
    ("Pi", "\u{ab}\u{201c}"),
    ("Pf", "\u{bb}\u{2019}"),
    ("Po", "!\"#\u{a1}\u{b7}\u{2026}\u{3002}\u{965}"),
    ("Sm", "+<\u{ac}\u{2211}"),
    ("Sc", "$\u{20ac}\u{e3f}"),
    ("Sk", "^\u{a8}\u{2c2}\u{1f3fb}"),
    ("So", "\u{a9}\u{b0}\u{2603}\u{1f4a9}\u{1f600}"),
    ("Zs", " \u{a0}\u{1680}\u{2003}\u{3000}"),
    ("Zl", "\u{2028}"),
    ("Zp", "\u{2029}"),
    ("Cc", "\u{1}\t\u{7f}\u{85}"),
    ("Cf", "\u{ad}\u{200b}\u{200d}\u{202e}\u{feff}\u{e0061}"),
    ("Co", "\u{e000}\u{f0000}"),
    ("Cn", "\u{378}\u{fffe}\u{e0fff}"),
    // What stands for a character that could not be read.
    ("So", "\u{fffd}"),
];

/// The program itself is asked: what it writes addresses with may know fewer of them.
#[tokio::test]
async fn a_mail_is_written_to_every_address_that_the_database_takes() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let around = |character: char| {
        [
            format!("a{character}a@x.test"),
            format!("{character}@x.test"),
            format!("a..{character}@x.test"),
            format!("a@a{character}a.test"),
        ]
    };
    let categories = CATEGORIES.iter().flat_map(|(category, characters)| {
        characters.chars().flat_map(around).map(move |address| (*category, address))
    });
    let (categories, addresses): (Vec<_>, Vec<_>) = categories.unzip();
    let query = "SELECT mailroom.is_address(address), mailroom.is_addressable(address)
        FROM unnest($1::text[]) WITH ORDINALITY AS given (address, nth) ORDER BY nth";
    let judged = client.query(query, &[&addresses]).await?;
    let configuration = Configuration::smtp(1, "")?;
    let folder = configuration.path("mails").display().to_string();
    let mut sending = Sending::start(&configuration, &["--dry-run", &folder])?;
    let mut taken = 0;
    for (number, (address, row)) in (1..).zip(addresses.iter().zip(judged)) {
        let category = categories[usize::try_from(number - 1)?];
        sending.write(&batch("b", &[(number, address)]))?;
        let answer = sending.answer()?;
        let is_written = answer["ok"] == serde_json::json!([number]);
        let (is_address, is_addressable): (bool, bool) = (row.get(0), row.get(1));
        ensure!(is_address == is_addressable, "{category} {address:?}");
        // The database refuses some that could be written, since it knows fewer characters.
        let is_in_neither = category.starts_with(['Z', 'C']);
        ensure!(
            (is_written || !is_address) && !(is_written && is_in_neither),
            "{category} {address:?}: {is_address}, the sender: {answer}"
        );
        taken += usize::from(is_address);
    }
    ensure!((150..300).contains(&taken), "{taken} of {} addresses were taken", addresses.len());
    Ok(())
}

#[tokio::test]
async fn a_mail_for_another_address_than_its_subject_has_is_cancelled_with_a_reason_and_its_id()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let account = client.account("ada").email("Ada@B\u{fc}cher.test").active().insert().await?;
    let mail = client.mail("recover").name("ada").subject(account);
    let same = mail.clone().to("ada@xn--bcher-kva.test").enqueue().await?;
    let other = mail.to("eve@x.test").enqueue().await?;
    let mut collector = Collector::start(&mut collector::command(database.url())?)?;
    let sent = collector.lines()?.next_items(1)?;
    assert_eq!(sent[0].email, "ada@xn--bcher-kva.test");
    let reason = "its address is not the one that its subject has now";
    collector.wait_for_log(&format!("{reason} (1)"), 1)?;
    let said = collector.stop()?;
    let line = said.lines().find(|line| line.contains(reason)).context("it is logged")?;
    ensure!(line.contains(&format!("[{other}]")) && !line.contains("eve@"), "{line}");
    assert_eq!(state(&client, other).await?, at("cancelled", 0));
    assert_eq!(log(&client, other).await?, [(0, "cancelled".to_owned(), Some(reason.to_owned()))]);
    // And the link is good.
    let secret =
        "SELECT count(*) FROM mailroom.issued_tokens WHERE id = $1 AND cancelled_at IS NULL";
    assert_eq!(client.query_one(secret, &[&same]).await?.get::<_, i64>(0), 1);
    Ok(())
}

#[tokio::test]
async fn a_language_that_is_not_understood_fails_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let view = "CREATE OR REPLACE VIEW mailroom.adopted_accounts AS SELECT id, email, login, \
                status, login::text AS language FROM accounts";
    client.batch_execute(view).await?;
    for (given, expected) in [
        ("pt-BR", Some("pt-BR")),
        ("pt_BR", Some("pt-BR")),
        ("pt_BR.UTF-8", Some("pt-BR")),
        ("en-US-u-ca-gregory", Some("en-US")),
        ("en-US@posix", Some("en-US")),
        ("sr-Latn-RS-x-a", Some("sr-Latn-RS")),
        ("de,en;q=0.5", Some("de")),
        ("POSIX", None),
        ("*", None),
        ("english", None),
        ("", None),
        ("\u{202e}de", None),
        (&"de-".repeat(300), Some("de-de-de-de")),
    ] {
        let language = "SELECT language FROM mailroom.issued_tokens WHERE id = $1";
        let id = client.mail("invite").language(given).enqueue().await?;
        let found: Option<String> = client.query_one(language, &[&id]).await?.get(0);
        assert_eq!(found.as_deref(), expected, "{given}");
        if given.len() < 200 {
            client.account(given).email(format!("ada{id}@x.test")).insert().await?;
            let newest = "SELECT language FROM mailroom.issued_tokens ORDER BY id DESC LIMIT 1";
            let found: Option<String> = client.query_one(newest, &[]).await?.get(0);
            assert_eq!(found.as_deref(), expected, "{given}");
        }
    }
    Ok(())
}
