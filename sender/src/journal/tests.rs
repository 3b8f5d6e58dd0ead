use std::collections::BTreeMap;
use std::fs::OpenOptions;

use base64ct::{Base64UrlUnpadded, Encoding};

use super::record::Record;
use super::state::GRACE;
use super::table::Table;
use super::*;

mod damage;
mod tables;

const NOW: i64 = 1_800_000_000;
const LATER: i64 = NOW + 900;

fn key(number: u128) -> Key {
    Key::parse(&format!("{number:032x}")).unwrap()
}

fn prepared(number: u128) -> PreparedMail {
    PreparedMail {
        key: key(number),
        provider: "smtp".to_owned(),
        prepared_at: NOW,
        envelope_sender: "us@x.test".to_owned(),
        to: "ada@x.test".to_owned(),
        payload: format!("Subject: x\r\n\r\nhttps://x.test/?token=SECRET{number} \u{fc}\r\n"),
        other: None,
    }
}

fn known(journal: &Journal, number: u128) -> Option<Known> {
    journal.known(key(number)).unwrap()
}

fn tried(journal: &Journal, number: u128) -> bool {
    match known(journal, number) {
        Some(Known::Tried { prepared: found, .. }) => {
            assert_eq!(found.payload, prepared(number).payload);
            assert_eq!(found.key, key(number));
            true
        }
        _ => false,
    }
}

fn accepted(journal: &Journal, number: u128) -> bool {
    matches!(known(journal, number), Some(Known::Accepted))
}

/// Whether the text of a mail can be read in the file, in any of its forms.
fn holds(path: &Path, number: u128) -> bool {
    let text = fs::read(path).unwrap();
    records(&text)
        .any(|record| matches!(record, Record::Tried { key: found, .. } if found == key(number)))
}

fn records(text: &[u8]) -> impl Iterator<Item = Record> {
    text.split_inclusive(|byte| *byte == b'\n').filter_map(record::parse)
}

#[test]
fn a_mail_is_what_it_was_at_its_first_attempt_until_it_is_accepted_and_then_its_token_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut journal = Journal::open(&path, NOW).unwrap();
    journal.record_prepared(prepared(1), LATER).unwrap();
    journal.record_prepared(prepared(2), LATER).unwrap();
    journal.record_prepared(prepared(3), LATER).unwrap();
    journal.sync(NOW).unwrap();
    journal.accept(key(1)).unwrap();
    journal.give_up(key(3)).unwrap();
    journal.sync(NOW).unwrap();
    for is_new in [false, true] {
        assert!(
            accepted(&journal, 1) && tried(&journal, 2) && known(&journal, 3).is_none(),
            "{is_new}"
        );
        assert!(!holds(&path, 1) && holds(&path, 2) && !holds(&path, 3));
        drop(journal);
        journal = Journal::open(&path, NOW).unwrap();
    }
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_mail_that_is_written_anew_for_another_provider_takes_the_place_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, NOW).unwrap();
    journal
        .record_prepared(PreparedMail { provider: "resend".to_owned(), ..prepared(1) }, LATER)
        .unwrap();
    journal.sync(NOW).unwrap();
    journal.record_prepared(prepared(1), LATER).unwrap();
    journal.sync(NOW).unwrap();
    let text = fs::read(&path).unwrap();
    assert_eq!(records(&text).filter(|record| matches!(record, Record::Tried { .. })).count(), 1);
    drop(journal);
    let Some(Known::Tried { prepared: found, .. }) = known(&Journal::open(&path, NOW).unwrap(), 1)
    else {
        panic!("it is lost")
    };
    assert_eq!(found.provider, "smtp");
}

#[test]
fn who_may_have_accepted_a_mail_is_known_after_a_kill_and_in_a_file_that_was_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut journal = Journal::open(&path, NOW).unwrap();
    for number in 1..=4 {
        journal
            .record_prepared(
                PreparedMail {
                    other: Some(("ses".to_owned(), "{}".to_owned())),
                    ..prepared(number)
                },
                LATER,
            )
            .unwrap();
    }
    journal.bind(key(2), "ses").unwrap();
    journal.free(key(3)).unwrap();
    journal.free(key(4)).unwrap();
    journal.bind(key(4), "smtp").unwrap();
    journal.bind(key(5), "smtp").unwrap();
    journal.sync(NOW).unwrap();
    for _ in 0..3 {
        for (number, expected) in
            [(1, Some("smtp")), (2, Some("ses")), (3, None), (4, Some("smtp"))]
        {
            let Some(Known::Tried { prepared, bound, .. }) = known(&journal, number) else {
                panic!("it is lost")
            };
            assert_eq!(bound.as_deref(), expected, "{number}");
            assert_eq!(prepared.payload("ses"), Some("{}"));
        }
        assert!(known(&journal, 5).is_none());
        drop(journal);
        journal = Journal::open(&path, NOW).unwrap();
    }
}

#[test]
fn a_journal_of_one_provider_is_read() {
    let text = record::tried(key(1), LATER, &prepared(1)).0;
    let Some(Record::Tried { prepared: found, .. }) = record::parse(&text) else {
        panic!("it is lost")
    };
    assert_eq!((found.provider.as_str(), found.other), ("smtp", None));
}

#[test]
fn expired_keys_are_forgotten_and_the_file_stays_small() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, NOW).unwrap();
    journal.record_prepared(prepared(0), NOW + 1_000_000).unwrap();
    let mut now = NOW;
    for round in 0..200 {
        for number in 1..=100 {
            journal.record_prepared(prepared(round * 100 + number), now + 900).unwrap();
            journal.accept(key(round * 100 + number)).unwrap();
        }
        journal.sync(now).unwrap();
        assert!(round % 50 > 0 || !holds(&path, round * 100 + 1));
        now += 600;
    }
    assert!(fs::metadata(&path).unwrap().len() < 3 << 20, "{}", fs::metadata(&path).unwrap().len());
    assert!(tried(&journal, 0));
    drop(journal);
    let journal = Journal::open(&path, now).unwrap();
    assert!(tried(&journal, 0) && accepted(&journal, 19_901) && known(&journal, 1).is_none());
    let state = journal.state();
    assert!(state.tried.len() + state.accepted.len() < 400);
}

#[test]
fn a_journal_belongs_to_one_process_and_no_other_file_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, NOW).unwrap();
    let error = Journal::open(&path, NOW).unwrap_err().to_string();
    assert!(error.contains("in use by another process"), "{error}");
    drop(journal);
    fs::write(&path, "from = \"us@x.test\"\n").unwrap();
    let error = Journal::open(&path, NOW).unwrap_err();
    assert!(
        error.is_of_configuration() && error.to_string().contains("is not a journal"),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"from = \"us@x.test\"\n");
    let error = Journal::open(&folder.path().join("nothing/journal"), NOW).unwrap_err().to_string();
    assert!(error.contains("nothing/journal.lock cannot be used"), "{error}");
}

#[test]
fn doubts_are_counted_across_kills_and_rewrites_until_an_outcome_takes_them_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut journal = Journal::open(&path, NOW).unwrap();
    let doubt = |count| Doubt { count, since: NOW + 5 };
    for number in 1..=5 {
        journal.record_prepared(prepared(number), LATER).unwrap();
    }
    journal.sync(NOW).unwrap();
    journal.set_doubt(key(1), doubt(1)).unwrap();
    journal.set_doubt(key(1), doubt(2)).unwrap();
    journal.set_doubt(key(2), doubt(1)).unwrap();
    journal.set_doubt(key(2), Doubt::default()).unwrap();
    journal.set_doubt(key(3), doubt(1)).unwrap();
    journal.accept(key(3)).unwrap();
    // Written anew for another provider: what the one before may have accepted stays in doubt.
    journal.set_doubt(key(4), doubt(1)).unwrap();
    journal
        .record_prepared(PreparedMail { provider: "ses".to_owned(), ..prepared(4) }, LATER)
        .unwrap();
    journal.set_doubt(key(5), doubt(3)).unwrap();
    journal.give_up(key(5)).unwrap();
    journal.set_doubt(key(6), doubt(1)).unwrap();
    // Nothing waited for the disk: a kill leaves what was written.
    for _ in 0..3 {
        assert_eq!(journal.doubt(key(1)), doubt(2));
        assert_eq!(journal.doubt(key(2)), Doubt::default());
        assert_eq!(journal.doubt(key(4)), doubt(1));
        assert!(
            accepted(&journal, 3) && known(&journal, 5).is_none() && known(&journal, 6).is_none()
        );
        assert_eq!(journal.doubt(key(5)), Doubt::default());
        let Some(Known::Tried { doubt: found, .. }) = known(&journal, 1) else {
            panic!("it is lost")
        };
        assert_eq!(found, doubt(2));
        drop(journal);
        journal = Journal::open(&path, NOW).unwrap();
    }
}

#[test]
fn a_doubt_outlives_the_text_that_it_was_recorded_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, NOW).unwrap();
    let doubt = Doubt { count: 2, since: NOW };
    journal.record_prepared(prepared(1), LATER).unwrap();
    journal.set_doubt(key(1), doubt).unwrap();
    journal
        .record_prepared(PreparedMail { provider: "ses".to_owned(), ..prepared(1) }, LATER)
        .unwrap();
    // Overwrites the first text.
    journal.sync(NOW).unwrap();
    drop(journal);
    assert_eq!(Journal::open(&path, NOW).unwrap().doubt(key(1)), doubt);
}

#[test]
fn what_is_written_during_a_wait_for_the_disk_is_not_said_to_be_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, NOW).unwrap();
    journal.record_prepared(prepared(1), LATER).unwrap();
    let (_, end, erasable) = journal.state().begin_sync(&path).unwrap();
    journal.set_doubt(key(1), Doubt { count: 1, since: NOW }).unwrap();
    journal.accept(key(1)).unwrap();
    journal.state().end_sync(&path, end, erasable, NOW).unwrap();
    // Its acceptance may be lost by a crash, so that its mail is still needed.
    assert!(holds(&path, 1));
    journal.record_prepared(prepared(2), LATER).unwrap();
    let text = fs::read(&path).unwrap();
    assert!(records(&text).any(|record| record == Record::Synced(end)));
    drop(journal);
    // A crash that damages what was not on the disk costs no other record.
    let from = usize::try_from(end).unwrap();
    for damaged in [from + 3, text.len() - 3] {
        let mut text = text.clone();
        text[damaged] = 0;
        fs::write(&path, &text).unwrap();
        let journal = Journal::open(&path, NOW).unwrap();
        assert!(accepted(&journal, 1), "{damaged}");
    }
    let mut text = text;
    text[from - 3] = 0;
    fs::write(&path, &text).unwrap();
    assert!(Journal::open(&path, NOW).unwrap_err().to_string().contains("line 3 is damaged"));
}

#[test]
fn a_check_reads_what_a_start_would_read_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let names = || fs::read_dir(folder.path()).unwrap().count();
    Journal::check(&path).unwrap();
    assert_eq!(names(), 0);
    let journal = Journal::open(&path, NOW).unwrap();
    journal.record_prepared(prepared(1), LATER).unwrap();
    journal.sync(NOW).unwrap();
    journal.accept(key(1)).unwrap();
    // Also while another process has it.
    Journal::check(&path).unwrap();
    drop(journal);
    let text = fs::read_to_string(&path).unwrap().replace("tried", "xried");
    fs::write(&path, &text).unwrap();
    let [checked, started] =
        [Journal::check(&path).unwrap_err(), Journal::open(&path, NOW).unwrap_err()];
    assert_eq!(checked, started);
    assert!(checked.to_string().contains("line 3 is damaged"), "{checked}");
    assert_eq!((names(), fs::read_to_string(&path).unwrap()), (2, text));
    fs::write(&path, "from = 5").unwrap();
    assert_eq!(Journal::check(&path), Journal::open(&path, NOW).map(|_| ()));
    let nowhere = folder.path().join("nothing/journal");
    assert!(
        Journal::check(&nowhere).unwrap_err().to_string().contains("journal.lock cannot be used")
    );
}
