//! Accepted keys that have left memory.

use std::collections::BTreeMap;

use super::*;

/// A key as a hash function would make it.
fn hashed(number: u128) -> u128 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

fn accept(journal: &Journal, numbers: impl Iterator<Item = u128>, expires_at: i64) {
    for number in numbers {
        journal.record_prepared(prepared(hashed(number)), expires_at).unwrap();
        journal.accept(key(hashed(number))).unwrap();
    }
}

/// The files of a folder and what is in them.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    named.filter(|(name, _)| name != "journal.lock").collect()
}

#[test]
fn memory_holds_recent_keys_alone_and_every_accepted_key_is_known_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut journal = Journal::open_with(&path, NOW, 100).unwrap();
    journal.record_prepared(prepared(hashed(5_000)), LATER).unwrap();
    for round in 0..100 {
        accept(&journal, round * 20..round * 20 + 20, LATER);
        journal.sync(NOW).unwrap();
        assert!(journal.state().accepted.len() < 100);
    }
    for _ in 0..2 {
        assert!((0..2_000).all(|number| accepted(&journal, hashed(number))));
        assert!((2_000..4_000).all(|number| known(&journal, hashed(number)).is_none()));
        assert!(tried(&journal, hashed(5_000)));
        let files = files(folder.path());
        assert_eq!(files.keys().collect::<Vec<_>>(), ["journal", "journal.table-20"]);
        let mode =
            fs::metadata(folder.path().join("journal.table-20")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(files["journal"].len() < 100_000, "accepted keys are in one of the two files");
        drop(journal);
        journal = Journal::open_with(&path, NOW, 100).unwrap();
    }
}

#[test]
fn a_key_is_found_wherever_it_is_and_no_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let places: [fn(u128) -> u128; 4] = [
        hashed,
        |number| number * 3 + 1,
        |number| u128::MAX - 1 - number * 3,
        // Two crowds, far from where their first bytes say.
        |number| if number % 2 == 0 { number * 3 + 1 } else { (1 << 127) + number * 3 },
    ];
    for place in places {
        for count in [1, 2, 169, 170, 171, 172, 341, 10_000] {
            let keys: BTreeMap<_, _> =
                (0..count).map(|number| (Key::of_number(place(number)), NOW)).collect();
            let table = Table::write(&journal, None, &keys, |_| true).unwrap();
            let table = Table::open(&journal, table.name).unwrap();
            // Of many keys a sample: each look-up reads pages.
            for number in (0..count).step_by(if count > 341 { 11 } else { 1 }) {
                let key = place(number);
                assert!(table.contains(Key::of_number(key)).unwrap(), "{number} of {count}");
                for other in [key.wrapping_sub(1), key.wrapping_add(1)] {
                    assert!(
                        !table.contains(Key::of_number(other)).unwrap(),
                        "beside {number} of {count}"
                    );
                }
            }
            for edge in [0, u128::MAX] {
                let is_in = keys.contains_key(&Key::of_number(edge));
                assert_eq!(table.contains(Key::of_number(edge)).unwrap(), is_in);
            }
        }
    }
}

#[test]
fn wherever_a_kill_stops_the_writing_of_a_table_no_key_is_lost() {
    stop_the_writing_of_a_table(NOW);
    // The table before it is of no use any more.
    stop_the_writing_of_a_table(LATER + GRACE + 1);
}

fn stop_the_writing_of_a_table(now: i64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open_with(&path, NOW, 200).unwrap();
    accept(&journal, 0..300, LATER);
    journal.sync(NOW).unwrap();
    drop(journal);
    let journal = Journal::open_with(&path, NOW, 10_000).unwrap();
    accept(&journal, 300..700, LATER + 10_000);
    journal.record_prepared(prepared(hashed(700)), LATER + 10_000).unwrap();
    journal.sync(NOW).unwrap();
    drop(journal);
    let before = files(folder.path());
    drop(Journal::open_with(&path, now, 200).unwrap());
    let after = files(folder.path());
    assert!(before.contains_key("journal.table-1") && after.contains_key("journal.table-2"));
    assert_eq!((before.len(), after.len()), (2, 2));

    let mut states = vec![before.clone(), after.clone()];
    let mut unfinished = |files: &BTreeMap<String, Vec<u8>>, name: &str, bytes: &[u8]| {
        for length in (0..bytes.len()).step_by(1_500).chain([bytes.len() - 1, bytes.len()]) {
            let mut state = files.clone();
            state.insert(name.to_owned(), bytes[..length].to_vec());
            states.push(state);
        }
    };
    // The new table is written, then the new journal under another name.
    unfinished(&before, "journal.table-2", &after["journal.table-2"]);
    let with_table = before
        .clone()
        .into_iter()
        .chain([("journal.table-2".to_owned(), after["journal.table-2"].clone())]);
    unfinished(&with_table.collect(), "journal.new", &after["journal"]);
    // The journal has its name, and the old table is still there.
    unfinished(&after, "journal.table-1", &before["journal.table-1"]);
    for (number, state) in states.iter().enumerate() {
        for most in [200, 10_000] {
            let folder = tempfile::tempdir().unwrap();
            for (name, bytes) in state {
                fs::write(folder.path().join(name), bytes).unwrap();
            }
            let journal = Journal::open_with(&folder.path().join("journal"), now, most).unwrap();
            let known_from = if now == NOW { 0 } else { 300 };
            assert!((known_from..700).all(|key| accepted(&journal, hashed(key))), "{number}");
            assert!(
                tried(&journal, hashed(700)) && known(&journal, hashed(701)).is_none(),
                "{number}"
            );
            let has_table = now == NOW || most == 200 || state["journal"] == after["journal"];
            assert_eq!(files(folder.path()).len(), 1 + usize::from(has_table), "{number}");
        }
    }
}

#[test]
fn where_no_table_can_be_written_memory_keeps_the_keys_until_one_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let in_the_way = folder.path().join("journal.table-1");
    fs::create_dir(&in_the_way).unwrap();
    fs::write(in_the_way.join("file"), "").unwrap();
    let mut journal = Journal::open_with(&folder.path().join("other"), NOW, 10).unwrap();
    journal.path.clone_from(&path);
    accept(&journal, 0..25, LATER);
    journal.sync(NOW).unwrap();
    let [recent, has_table] = kept(&journal);
    assert_eq!((recent, has_table), (25, 0));
    fs::remove_dir_all(&in_the_way).unwrap();
    journal.sync(NOW).unwrap();
    assert_eq!(kept(&journal)[0], 0);
    assert!((0..25).all(|number| accepted(&journal, hashed(number))));
}

#[test]
fn expired_keys_leave_the_table_and_the_last_one_takes_it_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open_with(&path, NOW, 10).unwrap();
    accept(&journal, 0..400, LATER);
    journal.sync(NOW).unwrap();
    accept(&journal, 400..800, LATER + 10_000);
    let now = LATER + GRACE + 1;
    journal.sync(now).unwrap();
    assert_eq!(journal.state().table.as_ref().unwrap().name.keys, 400);
    assert!((400..800).all(|number| accepted(&journal, hashed(number))));
    assert!((0..400).all(|number| known(&journal, hashed(number)).is_none()));
    drop(journal);
    let journal = Journal::open_with(&path, now + 9_999, 10).unwrap();
    assert!(accepted(&journal, hashed(400)));
    drop(journal);
    let journal = Journal::open_with(&path, now + 10_000, 10).unwrap();
    assert!(known(&journal, hashed(400)).is_none());
    assert_eq!(files(folder.path()).keys().collect::<Vec<_>>(), ["journal"]);
}

#[test]
fn a_table_that_is_damaged_or_missing_is_an_error_and_never_an_unknown_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open_with(&path, NOW, 400).unwrap();
    accept(&journal, 0..400, LATER);
    journal.sync(NOW).unwrap();
    accept(&journal, 400..800, LATER);
    journal.sync(NOW).unwrap();
    drop(journal);
    let whole = files(folder.path());
    let (table, right) = (folder.path().join("journal.table-2"), &whole["journal.table-2"]);
    assert_eq!(right.len(), 5 * 4096);
    let mut wrong: Vec<Vec<u8>> =
        [0, 4095, 4096, 8192, right.len() - 1].map(|length| right[..length].to_vec()).into();
    wrong.push([&right[..], &[0; 4096]].concat());
    wrong.push([&right[4096..8192], &right[..4096], &right[8192..]].concat());
    wrong.push(vec![0; right.len()]);
    // A bit of a key, of a time, of what fills the last page, of a sum.
    for place in [3, 170 * 24 - 1, 4096 + 17, right.len() - 20, right.len() - 1] {
        let mut bytes = right.clone();
        bytes[place] ^= 4;
        wrong.push(bytes);
    }
    for bytes in &wrong {
        fs::write(&table, bytes).unwrap();
        let error = Journal::open_with(&path, NOW, 400).unwrap_err().to_string();
        assert!(error.contains("its file table-2 is damaged"), "{error}");
    }
    fs::remove_file(&table).unwrap();
    let error = Journal::open_with(&path, NOW, 400).unwrap_err().to_string();
    assert!(error.contains("journal.table-2: No such file"), "{error}");
    // A table of another journal that has this name.
    let other = tempfile::tempdir().unwrap();
    let journal = Journal::open_with(&other.path().join("journal"), NOW, 800).unwrap();
    accept(&journal, 0..800, LATER);
    journal.sync(NOW).unwrap();
    fs::copy(other.path().join("journal.table-1"), &table).unwrap();
    assert!(Journal::open_with(&path, NOW, 400).is_err());
    // Without the line that names it, the keys would be unknown.
    fs::write(&table, right).unwrap();
    let text = String::from_utf8(whole["journal"].clone()).unwrap();
    fs::write(&path, text.replace("table 2", "table x")).unwrap();
    let error = Journal::open_with(&path, NOW, 400).unwrap_err().to_string();
    assert!(error.contains("line 2 is damaged"), "{error}");
    fs::write(&path, &whole["journal"]).unwrap();

    // Damage while the journal is open.
    let journal = Journal::open_with(&path, NOW, 400).unwrap();
    let mut bytes = right.clone();
    bytes[2 * 4096 + 50] ^= 1;
    fs::write(&table, &bytes).unwrap();
    let mut failures = 0;
    for number in 0..800 {
        match journal.known(key(hashed(number))) {
            Ok(found) => assert!(matches!(found, Some(Known::Accepted)), "{number}"),
            Err(error) => {
                assert!(error.to_string().contains("its file table-2 is damaged"), "{error}");
                failures += 1;
            }
        }
    }
    assert!((170..800).contains(&failures), "{failures}");
    accept(&journal, 800..1_200, LATER);
    let error = journal.sync(NOW).unwrap_err().to_string();
    assert!(error.contains("its file table-2 is damaged"), "{error}");
    fs::write(&table, right).unwrap();
    journal.sync(NOW).unwrap();
    assert!((0..1_200).all(|number| accepted(&journal, hashed(number))));
}

/// How many accepted keys are in memory, and how many tables there are.
fn kept(journal: &Journal) -> [usize; 2] {
    let state = journal.state();
    [state.accepted.len(), usize::from(state.table.is_some())]
}
