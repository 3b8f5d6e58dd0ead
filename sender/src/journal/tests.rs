use std::collections::BTreeMap;
use std::fs::OpenOptions;

use base64ct::{Base64UrlUnpadded, Encoding};

use super::record::Record;
use super::state::GRACE;
use super::table::Table;
use super::*;

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
fn whatever_a_kill_leaves_of_a_file_the_whole_records_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, NOW).unwrap();
    journal.record_prepared(prepared(1), LATER).unwrap();
    let first = journal.state().end;
    journal.record_prepared(prepared(2), LATER).unwrap();
    let second = journal.state().end;
    journal.accept(key(1)).unwrap();
    let third = journal.state().end;
    drop(journal);
    let whole = fs::read(&path).unwrap();
    let cut = folder.path().join("cut");
    for length in 0..=third {
        fs::write(&cut, &whole[..usize::try_from(length).unwrap()]).unwrap();
        let journal = Journal::open(&cut, NOW).unwrap();
        assert_eq!(accepted(&journal, 1), length >= third, "{length}");
        assert_eq!(tried(&journal, 1), (first..third).contains(&length), "{length}");
        assert_eq!(tried(&journal, 2), length >= second, "{length}");
        drop(journal);
        if length.is_multiple_of(50) {
            // A second kill, after the damaged record was left out.
            let again = Journal::open(&cut, NOW).unwrap();
            assert_eq!(tried(&again, 2), length >= second, "{length}");
        }
    }
}

#[test]
fn a_damaged_record_that_was_never_relied_upon_costs_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut text = record::HEADER.to_vec();
    text.extend(record::tried(key(1), LATER, &prepared(1)).0);
    let bad = format!("accepted {} x", key(1));
    for line in ["", "tried", "accepted x 5", "tried \u{fc}", &bad, "given-up 1 2 3"] {
        text.extend(record::line(line));
        text.extend(format!("{line}\n").as_bytes());
    }
    let right = record::accepted(key(1), LATER);
    text.extend(str::from_utf8(&right).unwrap().replace("accepted", "Accepted").as_bytes());
    text.extend([&right[..right.len() - 2], b"\n"].concat());
    text.extend([0, 0xff, b'\n']);
    text.extend(record::tried(key(2), LATER, &prepared(2)).0);
    fs::write(&path, text).unwrap();
    let journal = Journal::open(&path, NOW).unwrap();
    assert!(tried(&journal, 1) && tried(&journal, 2));
}

#[test]
fn a_damaged_record_that_was_relied_upon_is_an_error_and_the_file_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, NOW).unwrap();
    for number in 1..=3 {
        journal.record_prepared(prepared(number), LATER).unwrap();
    }
    journal.sync(NOW).unwrap();
    journal.accept(key(1)).unwrap();
    journal.give_up(key(2)).unwrap();
    journal.sync(NOW).unwrap();
    journal.free(key(3)).unwrap();
    drop(journal);
    let whole = fs::read_to_string(&path).unwrap();
    let mail = record::tried(key(3), LATER, &prepared(3)).0;
    let mail = str::from_utf8(&mail).unwrap().trim_end();
    // As another version would write it: without a field.
    let text = serde_json::to_string(&prepared(3))
        .unwrap()
        .replace("\"envelope_sender\":\"us@x.test\",", "");
    let without_sender =
        format!("tried {} {LATER} {}", key(3), Base64UrlUnpadded::encode_string(text.as_bytes()));
    let without_sender = String::from_utf8(record::line(&without_sender)).unwrap();
    let right = |line: &[u8]| str::from_utf8(line).unwrap().trim_end().to_owned();
    for (right, wrong, line) in [
        (mail, without_sender.trim_end(), 5),
        (mail, &mail.replace("tried", "trie?"), 5),
        (mail, &mail[..mail.len() - 1], 5),
        (mail, &format!("{mail} "), 5),
        (mail, &mail.replace("tried", "tried\ntried"), 5),
        (mail, &format!("{mail}\n\0\0\0"), 6),
        (&format!("accepted {} {LATER}", key(1)), &format!("accepted {} {LATER}x", key(1)), 7),
        // Without what settled a mail, its text would not have been overwritten.
        (&right(&record::accepted(key(1), LATER)), &right(&record::synced(0)), 3),
        (&right(&record::given_up(key(2))), &right(&record::synced(0)), 4),
    ] {
        let text = whole.replace(right, wrong);
        assert_ne!(text, whole, "{right}");
        fs::write(&path, &text).unwrap();
        let error = Journal::open(&path, NOW).unwrap_err().to_string();
        assert!(
            error.contains(&format!("line {line} is damaged")) && !error.contains('@'),
            "{wrong}: {error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    fs::write(&path, whole.replace("journal 4", "journal 3")).unwrap();
    assert!(
        Journal::open(&path, NOW)
            .unwrap_err()
            .to_string()
            .contains("not a journal of this version")
    );
    fs::write(&path, &whole).unwrap();
    let journal = Journal::open(&path, NOW).unwrap();
    assert!(accepted(&journal, 1) && known(&journal, 2).is_none() && tried(&journal, 3));
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
fn a_disk_that_is_full_leaves_no_half_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, NOW).unwrap();
    journal.record_prepared(prepared(1), LATER).unwrap();
    journal.sync(NOW).unwrap();
    let before = fs::read(&path).unwrap();
    // Every write to it ends like one to a full disk.
    let full = Arc::new(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let file = std::mem::replace(&mut journal.state().file, full);
    let error = journal.record_prepared(prepared(2), LATER).unwrap_err().to_string();
    assert!(error.contains("No space left on device"), "{error}");
    assert!(journal.accept(key(1)).is_err());
    assert!(accepted(&journal, 1) && known(&journal, 2).is_none());
    journal.state().file = file;
    journal.record_prepared(prepared(3), LATER).unwrap();
    journal.sync(NOW).unwrap();
    assert_eq!(fs::read(&path).unwrap()[..before.len()], before);
    drop(journal);
    let journal = Journal::open(&path, NOW).unwrap();
    assert!(tried(&journal, 3) && tried(&journal, 1) && known(&journal, 2).is_none());
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

/// What a journal says of all keys, each in a text.
fn contents(path: &Path) -> Result<BTreeMap<String, String>, Error> {
    let Contents { tried, accepted, table } = Contents::read(path, &File::open(path).unwrap())?;
    let tried = tried.into_iter().map(|(key, tried)| {
        let Tried { prepared, expires_at, bound, doubt, .. } = tried;
        let text = serde_json::to_string(&*prepared).unwrap();
        (key.to_string(), format!("{text} {expires_at} {bound:?} {doubt:?}"))
    });
    let accepted = accepted.into_iter().map(|(key, at)| (key.to_string(), at.to_string()));
    assert!(table.is_none());
    Ok(tried.chain(accepted).collect())
}

#[test]
fn a_bit_that_a_disk_changes_makes_no_other_verdict_of_one_that_was_relied_upon() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, NOW).unwrap();
    for number in 1..=4 {
        journal.record_prepared(prepared(number), LATER).unwrap();
    }
    journal.bind(key(1), "ses").unwrap();
    journal.set_doubt(key(1), Doubt { count: 2, since: NOW }).unwrap();
    journal.free(key(2)).unwrap();
    journal.sync(NOW).unwrap();
    journal.accept(key(3)).unwrap();
    journal.give_up(key(4)).unwrap();
    journal.sync(NOW).unwrap();
    // Writes down how much the disk has.
    journal.set_doubt(key(2), Doubt { count: 1, since: NOW }).unwrap();
    drop(journal);
    let whole = fs::read(&path).unwrap();
    let expected = contents(&path).unwrap();
    let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    // Behind this only what is not relied upon may be left out: the last record.
    let relied = whole.len() - lines[lines.len() - 2..].concat().len();
    fs::write(&path, &whole[..whole.len() - lines[lines.len() - 1].len()]).unwrap();
    let without_last = contents(&path).unwrap();
    assert_ne!(without_last, expected);
    for place in 0..whole.len() {
        for bit in 0..8 {
            let mut text = whole.clone();
            text[place] ^= 1 << bit;
            fs::write(&path, &text).unwrap();
            match contents(&path) {
                Ok(found) => assert!(
                    found == expected || (found == without_last && place >= relied),
                    "{place} {bit}: {found:?}"
                ),
                Err(error) => {
                    assert!(place < relied && !error.to_string().contains("SECRET"), "{error}");
                }
            }
        }
    }
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
