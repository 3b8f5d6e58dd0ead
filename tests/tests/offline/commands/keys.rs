//! Files of keys, and `mailroom keygen`.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use mailroom_tests::collector::KEY;
use mailroom_tests::program;

use super::{OTHER_KEY, mailroom, run, sign};

#[test]
fn every_key_of_a_file_verifies_and_the_first_one_signs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("keys");
    fs::write(&path, format!("# new\n{OTHER_KEY}\n\n# old\n{KEY}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let with_file = |arguments: &[&str]| -> Result<_> {
        run(program::mailroom()?.args(arguments).env("MAILROOM_KEY_FILE", &path))
    };
    let old = sign(&["--action", "activate"], &"a1".repeat(32))?;
    assert_eq!(with_file(&["verify", "--action", "activate", &old])?.0, Some(0));
    let (_, new, _) = with_file(&["sign", "--action", "activate"])?;
    assert_eq!(with_file(&["verify", "--action", "activate", new.trim_end()])?.0, Some(0));
    assert_eq!(
        run(&mut mailroom(&["verify", "--action", "activate", new.trim_end()])?)?.0,
        Some(1)
    );
    Ok(())
}

#[test]
fn keygen_makes_keys_that_work_and_never_overwrites_one() -> Result<()> {
    let keys: HashSet<_> =
        (0..3).map(|_| Ok(run(&mut mailroom(&["keygen"])?)?.1)).collect::<Result<_>>()?;
    assert_eq!(keys.len(), 3);
    for key in &keys {
        assert_eq!(key.len(), 65);
        assert!(
            key.trim_end()
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        );
        let mut command = mailroom(&["sign", "--action", "activate"])?;
        assert_eq!(run(command.env("MAILROOM_SECRET_KEY", key.trim_end()))?.0, Some(0));
    }

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("key");
    let shown = path.to_string_lossy();
    let (status, output, errors) = run(&mut mailroom(&["keygen", "--output", &shown])?)?;
    assert_eq!((status, output.as_str()), (Some(0), ""));
    assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
    let key = fs::read_to_string(&path)?;
    // What it made and the next step, without the key.
    assert!(errors.starts_with(&format!("{shown} has a new shared key")), "{errors}");
    assert!(errors.contains(&format!("`mailroom collect --key-file {shown}`")), "{errors}");
    assert!(!errors.contains(key.trim_end()), "{errors}");
    assert_eq!(key.len(), 65);
    let (status, _, errors) = run(&mut mailroom(&["keygen", "--output", &shown])?)?;
    assert_eq!(status, Some(1));
    assert!(errors.contains("exists already and is not overwritten"), "{errors}");
    assert_eq!(fs::read_to_string(&path)?, key);
    let mut command = program::mailroom()?;
    assert_eq!(
        run(command.args(["sign", "--action", "activate", "--key-file", &shown]))?.0,
        Some(0)
    );
    Ok(())
}

#[test]
fn each_kind_of_a_key_that_is_written_says_who_needs_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [private, public] = ["private", "public"].map(|name| folder.path().join(name));
    let [private, public] = [&private, &public].map(|path| path.to_string_lossy().into_owned());
    let keygen = |arguments: &[&str]| run(&mut mailroom(&[&["keygen"], arguments].concat())?);
    let (status, _, said) = keygen(&["--token-format", "v3", "--output", &private])?;
    assert!(status == Some(0) && said.contains("has a new private key, which signs v3"), "{said}");
    assert!(said.contains(&format!("`mailroom keygen --public --key-file {private}`")), "{said}");
    assert!(!said.contains("mrsk_"), "{said}");
    let (status, _, said) = keygen(&["--public", "--key-file", &private, "--output", &public])?;
    assert!(status == Some(0) && said.contains("has the public key"), "{said}");
    Ok(())
}

/// The variable is for those who sign.
#[test]
fn keygen_public_ignores_the_variable_of_the_token_format() -> Result<()> {
    let (_, private, _) = run(&mut mailroom(&["keygen", "--token-format", "v3"])?)?;
    for format in ["v1", "v9"] {
        let mut command = mailroom(&["keygen", "--public"])?;
        command.env("MAILROOM_SIGNING_KEY", private.trim()).env("MAILROOM_TOKEN_FORMAT", format);
        let (status, public, errors) = run(&mut command)?;
        assert!(status == Some(0) && public.starts_with("mrpk_"), "{format}: {errors}");
        let mut command = mailroom(&["keygen"])?;
        let (status, ..) = run(command.env("MAILROOM_TOKEN_FORMAT", format))?;
        assert_eq!(status, Some(if format == "v1" { 0 } else { 2 }), "{format}");
    }
    Ok(())
}
