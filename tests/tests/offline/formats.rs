//! `mailroom sign`, `verify` and `keygen` in every format.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use base64ct::{Base64UrlUnpadded, Encoding};
use mailroom_tests::collector::KEY;
use mailroom_tests::program;
use serde_json::Value;

const PRIVATE: &str = "mrsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
const PUBLIC: &str = "mrpk_A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";
const EXPIRY: u64 = 1_800_000_900;

/// A call with these variables and no others of ours.
pub(crate) fn mailroom(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Command> {
    let mut command = program::mailroom()?;
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    Ok(command)
}

/// Exit status, standard output and standard error.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<(Option<i32>, String, String)> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // A call that is refused does not read.
    child.stdin.take().context("standard input is a pipe")?.write_all(input.as_bytes()).ok();
    let output = child.wait_with_output()?;
    let text = |bytes| String::from_utf8(bytes);
    Ok((output.status.code(), text(output.stdout)?, text(output.stderr)?))
}

pub(crate) fn text(value: &Value) -> Result<&str> {
    value.as_str().context("the vectors have a text here")
}

/// The text form of the private key with this seed, in hexadecimal.
pub(crate) fn private_key(seed: &str) -> Result<String> {
    let byte = |start| u8::from_str_radix(&seed[start..start + 2], 16);
    let bytes: Vec<u8> = (0..seed.len()).step_by(2).map(byte).collect::<Result<_, _>>()?;
    Ok(format!("mrsk_{}", Base64UrlUnpadded::encode_string(&bytes)))
}

/// Writes a key file that only its owner can read.
fn write_keys(file: &Path, keys: &str) -> Result<()> {
    fs::write(file, keys)?;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(0o600))?)
}

/// Signs some genuine cases of a file of vectors, and has `mailroom verify` judge every seventh
/// case of it.
fn agrees_with_the_vectors(format: &str) -> Result<()> {
    let file = mailroom_tests::tools::workspace().join(format!("tests/vectors/{format}.json"));
    let vectors: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let (mut signed, mut judged) = (0, 0);
    for group in vectors["groups"].as_array().context("groups")? {
        let action = text(&group["action"])?;
        let shared = group["key"].as_str().map(|key| ("MAILROOM_SECRET_KEY", key.to_owned()));
        let (variable, key) = match (shared, group["private_key"].as_str()) {
            (Some(shared), _) => shared,
            (None, Some(seed)) => ("MAILROOM_SIGNING_KEY", private_key(seed)?),
            (None, None) => bail!("a group has no key"),
        };
        let variables = [(variable, key.as_str())];
        let tests = group["tests"].as_array().context("tests")?;
        let genuine =
            tests.iter().filter(|test| test["result"] == "valid" && test["secret"].is_string());
        for test in genuine.take(3) {
            let expiry = test["expires_at"].to_string();
            let mut command = mailroom(&["sign", "--secret", "-", "--action", action], &variables)?;
            command.args(["--token-format", format, "--expires-at", &expiry]);
            // A v3 token does not depend on its code.
            if action == "recover" {
                command.args(["--code", test["code"].as_str().unwrap_or("00000")]);
            }
            let (status, output, errors) = run(&mut command, text(&test["secret"])?)?;
            assert_eq!(status, Some(0), "tcId {}: {errors}", test["tcId"]);
            assert_eq!(output.trim_end(), test["token"], "tcId {}", test["tcId"]);
            signed += 1;
        }
        for test in tests.iter().step_by(7) {
            let at = test["now"].to_string();
            let mut command =
                mailroom(&["verify", "--json", "--action", action, "--at", &at], &variables)?;
            if let Some(code) = test["code"].as_str() {
                command.arg(format!("--code={code}"));
            }
            // No argument can hold a NUL.
            let token = text(&test["token"])?;
            if token.contains('\0') {
                continue;
            }
            let (_, output, errors) = run(command.args(["--", token]), "")?;
            let verdict: Value = serde_json::from_str(&output).with_context(|| errors)?;
            let expected = if test["result"] == "valid" { &Value::Null } else { &test["error"] };
            assert_eq!(&verdict["reason"], expected, "tcId {}: {output}", test["tcId"]);
            judged += 1;
        }
    }
    assert!(signed >= 4 && judged >= 30, "only {signed} were signed and {judged} judged");
    Ok(())
}

#[test]
fn signing_and_verifying_v2_agree_with_the_vectors() -> Result<()> {
    agrees_with_the_vectors("v2")
}

#[test]
fn signing_and_verifying_v3_agree_with_the_vectors() -> Result<()> {
    agrees_with_the_vectors("v3")
}

/// A token of `format`, signed with the example keys.
fn sign(format: &str, action: &str) -> Result<String> {
    let variables = [("MAILROOM_SECRET_KEY", KEY), ("MAILROOM_SIGNING_KEY", PRIVATE)];
    let expiry = EXPIRY.to_string();
    let mut command =
        mailroom(&["sign", "--action", action, "--token-format", format], &variables)?;
    if format != "v1" {
        command.args(["--expires-at", &expiry]);
    }
    if action == "recover" {
        command.args(["--code", "04711"]);
    }
    let (status, output, errors) = run(&mut command, "")?;
    assert_eq!((status, errors), (Some(0), format!("signed in the format {format}\n")));
    Ok(output.trim_end().to_owned())
}

#[test]
fn the_format_decides_the_length_and_nothing_else_of_the_output() -> Result<()> {
    for (format, lengths) in [("v1", [86, 86]), ("v2", [104, 124]), ("v3", [147, 147])] {
        assert_eq!(
            [sign(format, "activate")?.len(), sign(format, "recover")?.len()],
            lengths,
            "{format}"
        );
    }
    let variables = [("MAILROOM_SECRET_KEY", KEY), ("MAILROOM_TOKEN_FORMAT", "v2")];
    let (_, output, _) = run(&mut mailroom(&["sign", "--action", "activate"], &variables)?, "")?;
    assert_eq!(output.len(), 105, "the variable chooses as the flag does");
    Ok(())
}

#[test]
fn a_link_is_valid_until_its_expiry_and_for_the_tolerance_after_it() -> Result<()> {
    for format in ["v2", "v3"] {
        let token = sign(format, "activate")?;
        let variables = [("MAILROOM_SECRET_KEY", KEY), ("MAILROOM_PUBLIC_KEY", PUBLIC)];
        for (at, tolerance, verdict) in [
            (EXPIRY - 1, 0, "valid\n"),
            (EXPIRY, 0, "not valid: ERR_TOKEN_EXPIRED: "),
            (EXPIRY + 9, 10, "valid\n"),
            (EXPIRY + 10, 10, "not valid: ERR_TOKEN_EXPIRED: "),
        ] {
            let (at, tolerance) = (at.to_string(), tolerance.to_string());
            let mut command = mailroom(&["verify", "--action", "activate", &token], &variables)?;
            let (status, output, _) =
                run(command.args(["--at", &at, "--clock-tolerance", &tolerance]), "")?;
            assert!(output.starts_with(verdict), "{format} at {at}: {output}");
            assert_eq!(status, Some(i32::from(verdict != "valid\n")));
        }
    }
    // Without --at it is judged by the clock, and lives a quarter of an hour.
    let variables = [("MAILROOM_SECRET_KEY", KEY)];
    let signing = &["sign", "--action", "activate", "--token-format", "v2"];
    let (_, token, _) = run(&mut mailroom(signing, &variables)?, "")?;
    let verifying = &["verify", "--action", "activate", token.trim_end()];
    assert_eq!(run(&mut mailroom(verifying, &variables)?, "")?.1, "valid\n");
    Ok(())
}

#[test]
fn a_recovery_says_when_its_code_was_not_checked() -> Result<()> {
    let at = (EXPIRY - 1).to_string();
    let variables = [("MAILROOM_SECRET_KEY", KEY), ("MAILROOM_PUBLIC_KEY", PUBLIC)];
    let partly = "valid, apart from its code, which was not checked\n";
    for (format, arguments, verdict) in [
        ("v1", &["--code", "04711"][..], "valid\n"),
        ("v1", &["--link"], "not valid: ERR_LINK_UNCHECKABLE: "),
        ("v2", &["--code", "04711"], "valid\n"),
        ("v2", &["--code", "04712"], "not valid: ERR_CODE_MISMATCH: "),
        ("v2", &[], "not valid: ERR_CODE_REQUIRED: "),
        ("v2", &["--link"], partly),
        ("v3", &["--code", "04711"], "not valid: ERR_CODE_UNCHECKABLE: "),
        ("v3", &[], partly),
        ("v3", &["--link"], partly),
    ] {
        let token = sign(format, "recover")?;
        let mut command =
            mailroom(&["verify", "--action", "recover", "--at", &at, &token], &variables)?;
        let (_, output, errors) = run(command.args(arguments), "")?;
        assert!(output.starts_with(verdict), "{format} {arguments:?}: {output}{errors}");
    }
    let token = sign("v3", "recover")?;
    let json = &["verify", "--json", "--action", "recover", "--at", &at, &token];
    let (status, output, _) = run(&mut mailroom(json, &variables)?, "")?;
    assert_eq!(
        (status, serde_json::from_str::<Value>(&output)?),
        (Some(0), serde_json::json!({ "valid": true, "code_checked": false }))
    );
    Ok(())
}

#[test]
fn one_key_file_verifies_every_format() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("keys");
    write_keys(&file, &format!("{PUBLIC}\n# shared\n{KEY}\n"))?;
    let file = file.to_string_lossy();
    let at = (EXPIRY - 1).to_string();
    for format in ["v1", "v2", "v3"] {
        let token = sign(format, "activate")?;
        let verify = &["verify", "--action", "activate", "--at", &at, "--key-file", &file, &token];
        assert_eq!(run(&mut mailroom(verify, &[])?, "")?.1, "valid\n", "{format}");
    }
    // A key of another kind verifies nothing.
    for (format, variable) in
        [("v3", ("MAILROOM_SECRET_KEY", KEY)), ("v2", ("MAILROOM_PUBLIC_KEY", PUBLIC))]
    {
        let token = sign(format, "activate")?;
        let (status, output, _) = run(
            &mut mailroom(&["verify", "--action", "activate", "--at", &at, &token], &[variable])?,
            "",
        )?;
        assert_eq!(status, Some(1));
        assert!(output.starts_with("not valid: ERR_TOKEN_SIGNATURE: "), "{output}");
    }
    Ok(())
}

#[test]
fn a_key_file_that_everybody_can_read_is_warned_of_unless_its_keys_are_public() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("keys");
    for (keys, warned) in [(PUBLIC.to_owned(), false), (format!("{PUBLIC}\n{KEY}"), true)] {
        fs::write(&file, keys)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
        let verify = ["verify", "--action", "activate", "--key-file", &file.to_string_lossy(), "x"];
        let (_, _, errors) = run(&mut mailroom(&verify, &[])?, "")?;
        assert_eq!(errors.contains("can be read by every user"), warned, "{errors}");
    }
    Ok(())
}

#[test]
fn a_key_of_the_wrong_kind_is_one_sentence_and_not_shown() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("keys");
    write_keys(&file, &format!("# for verifiers\n{PUBLIC}\n{KEY}\n"))?;
    let file = file.to_string_lossy();
    let kinds = "a private key begins with `mrsk_`, a public key with `mrpk_`, and a shared key is \
                 64 hexadecimal characters";
    let sign = ["sign", "--action", "activate", "--token-format"];
    for (arguments, variables, sentence) in [
        (
            vec!["v3"],
            vec![("MAILROOM_SECRET_KEY", KEY)],
            "MAILROOM_SIGNING_KEY is not set; v3 is signed with a private key: set it to one, \
             `mrsk_…`, or MAILROOM_KEY_FILE to a file that begins with one; `mailroom keygen \
             --token-format v3` makes one"
                .to_owned(),
        ),
        (
            vec!["v3"],
            vec![("MAILROOM_SIGNING_KEY", PUBLIC)],
            format!("MAILROOM_SIGNING_KEY is no private key: {kinds}"),
        ),
        (
            vec!["v2"],
            vec![("MAILROOM_SECRET_KEY", PRIVATE)],
            format!("MAILROOM_SECRET_KEY is no shared key: {kinds}"),
        ),
        (
            vec!["v3", "--key-file", &file],
            vec![],
            format!(
                "line 2 of the key file {file} is a public key, \
                 but v3 is signed with a private key, `mrsk_…`"
            ),
        ),
        (
            vec!["v2", "--key-file", &file],
            vec![],
            format!(
                "line 2 of the key file {file} is a public key, but v2 is signed with a shared key \
                 of 64 hexadecimal characters"
            ),
        ),
        (
            vec!["v4"],
            vec![("MAILROOM_SECRET_KEY", KEY)],
            "--token-format is `v4`, but must be `v1` or `v2` or `v3`".to_owned(),
        ),
        (
            vec!["v1", "--expires-at", "1800000000"],
            vec![("MAILROOM_SECRET_KEY", KEY)],
            "a v1 token carries no expiry; leave --expires-at out, \
             or sign v2 or v3 with --token-format"
                .to_owned(),
        ),
    ] {
        let arguments: Vec<_> = sign.into_iter().chain(arguments).collect();
        let (status, output, errors) = run(&mut mailroom(&arguments, &variables)?, "")?;
        assert_eq!((status, output.as_str()), (Some(2), ""), "{arguments:?}");
        assert_eq!(errors, format!("mailroom: {sentence}\n"));
    }
    Ok(())
}

#[test]
fn a_bad_key_file_is_refused_and_not_shown() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("keys");
    let file = path.to_string_lossy();
    for (content, fault) in [
        (
            "# nothing\n\n".to_owned(),
            "the key file FILE has no key; write one with `mailroom keygen`",
        ),
        (
            format!("{KEY}\n\n{KEY}0"),
            "line 3 of the key file FILE is no key: \
             a shared key is 64 hexadecimal characters, not 65",
        ),
        (
            "#".repeat(65_537),
            "the key file FILE is longer than 65536 bytes; \
             it must hold one key a line and nothing else",
        ),
    ] {
        write_keys(&path, &content)?;
        let sign = ["sign", "--action", "activate", "--key-file", &file];
        let (status, output, errors) = run(&mut mailroom(&sign, &[])?, "")?;
        assert_eq!((status, output.as_str()), (Some(2), ""));
        assert_eq!(errors, format!("mailroom: {}\n", fault.replace("FILE", &file)));
    }
    Ok(())
}

#[test]
fn keygen_makes_the_keys_of_every_format_and_tells_public_ones() -> Result<()> {
    for (format, length) in [("v1", 64), ("v2", 64), ("v3", 48)] {
        let (status, key, errors) =
            run(&mut mailroom(&["keygen", "--token-format", format], &[])?, "")?;
        assert_eq!((status, key.trim_end().len(), errors.as_str()), (Some(0), length, ""));
        assert_eq!(key.starts_with("mrsk_"), format == "v3");
    }
    let public = |arguments: &[&str], variables: &[(&str, &str)]| {
        run(mailroom(&["keygen", "--public"], variables)?.args(arguments), "")
    };
    let told = (Some(0), format!("{PUBLIC}\n"), String::new());
    assert_eq!(public(&[], &[("MAILROOM_SIGNING_KEY", PRIVATE)])?, told);
    let folder = tempfile::tempdir()?;
    let (file, output) = (folder.path().join("keys"), folder.path().join("public"));
    write_keys(&file, &format!("{PRIVATE}\n{KEY}\n"))?;
    let (file, shown) = (file.to_string_lossy(), output.to_string_lossy());
    assert_eq!(public(&["--key-file", &file, "--token-format", "v3"], &[])?, told);
    // A key that does not sign the format leaves the choice to the file.
    assert_eq!(public(&[], &[("MAILROOM_SECRET_KEY", KEY), ("MAILROOM_KEY_FILE", &file)])?, told);
    assert_eq!(public(&["--key-file", &file, "--output", &shown], &[])?.0, Some(0));
    assert_eq!(fs::read_to_string(&output)?, format!("{PUBLIC}\n"));

    let (status, output, errors) = public(&[], &[("MAILROOM_SECRET_KEY", KEY)])?;
    assert_eq!(
        (status, output.as_str()),
        (Some(2), ""),
        "a new key here would end up where public ones go"
    );
    assert!(errors.starts_with("mailroom: MAILROOM_SIGNING_KEY is not set; "), "{errors}");
    let (status, _, errors) =
        public(&["--token-format", "v2"], &[("MAILROOM_SIGNING_KEY", PRIVATE)])?;
    assert_eq!(status, Some(2));
    assert!(errors.contains("v2 has no public key"), "{errors}");
    Ok(())
}
