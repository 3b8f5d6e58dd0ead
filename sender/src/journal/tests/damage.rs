//! What kills and disks leave of a file.

use super::*;

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
