//! `mailroom sign`, `verify` and `keygen`.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use mailroom_tests::collector::KEY;
use mailroom_tests::program;

const OTHER_KEY: &str = "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff";

fn mailroom(arguments: &[&str]) -> Result<Command> {
    let mut command = program::mailroom()?;
    command.args(arguments).env("MAILROOM_SECRET_KEY", KEY).stdin(Stdio::null());
    Ok(command)
}

/// Exit status, standard output and standard error.
fn run(command: &mut Command) -> Result<(Option<i32>, String, String)> {
    let output = command.output()?;
    let text = |bytes| String::from_utf8(bytes);
    Ok((output.status.code(), text(output.stdout)?, text(output.stderr)?))
}

fn run_with_input(command: &mut Command, input: &str) -> Result<(Option<i32>, String, String)> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("standard input is a pipe")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let text = |bytes| String::from_utf8(bytes);
    Ok((output.status.code(), text(output.stdout)?, text(output.stderr)?))
}

/// Signs with a given secret; returns the token.
fn sign(arguments: &[&str], secret: &str) -> Result<String> {
    let mut command = mailroom(&["sign", "--secret", "-"])?;
    let (code, output, errors) = run_with_input(command.args(arguments), secret)?;
    assert_eq!(code, Some(0), "{errors}");
    Ok(output.trim_end().to_owned())
}

#[test]
fn signing_agrees_with_the_vectors() -> Result<()> {
    let file = mailroom_tests::tools::workspace().join("tests/vectors/v1.json");
    let vectors: serde_json::Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let mut signed = 0;
    for group in vectors["groups"].as_array().context("groups")? {
        let (key, action) = (&group["key"], group["action"].as_str().context("an action")?);
        let tests = group["tests"].as_array().context("tests")?;
        for test in tests
            .iter()
            .filter(|test| test["result"] == "valid" && test["secret"].is_string())
            .take(4)
        {
            let mut command = mailroom(&["sign", "--secret", "-", "--action", action])?;
            if let Some(code) = test["code"].as_str() {
                command.args(["--code", code]);
            }
            command.env("MAILROOM_SECRET_KEY", key.as_str().context("a key")?);
            let output =
                run_with_input(&mut command, test["secret"].as_str().context("a secret")?)?;
            assert_eq!(output.1.trim_end(), test["token"], "tcId {}", test["tcId"]);
            signed += 1;
        }
    }
    assert!(signed >= 4, "only {signed} vectors were tried");
    Ok(())
}

#[test]
fn verdict_and_exit_status_tell_genuine_from_forged() -> Result<()> {
    let activation = sign(&["--action", "activate"], &"a1".repeat(32))?;
    let recovery = sign(&["--action", "recover", "--code", "01234"], &"A1".repeat(32))?;
    let forged = format!("B{}", &activation[1..]);
    for (arguments, code, verdict) in [
        (vec!["--action", "activate", &*activation], 0, "valid"),
        (vec![&*activation, "--action", "activate"], 0, "valid"),
        (vec!["--action", "recover", "--code", "01234", &*recovery], 0, "valid"),
        (vec!["--action", "activate", &*forged], 1, "not valid: ERR_TOKEN_SIGNATURE: "),
        (
            vec!["--action", "recover", "--code", "01235", &*recovery],
            1,
            "not valid: ERR_TOKEN_SIGNATURE: ",
        ),
        (vec!["--action", "recover", &*recovery], 1, "not valid: ERR_CODE_REQUIRED: "),
        (
            vec!["--action", "recover", "--code", "1234", &*recovery],
            1,
            "not valid: ERR_CODE_MALFORMED: ",
        ),
        (
            vec!["--action", "recover", "--code", "", &*recovery],
            1,
            "not valid: ERR_CODE_MALFORMED: ",
        ),
        (
            vec!["--action", "activate", "--code", "01234", &*activation],
            1,
            "not valid: ERR_CODE_UNCHECKABLE: ",
        ),
        (vec!["--action", "activate", &activation[1..]], 1, "not valid: ERR_TOKEN_MALFORMED: "),
        (vec!["--action", "activate", ""], 1, "not valid: ERR_TOKEN_MALFORMED: "),
    ] {
        let (status, output, errors) = run(mailroom(&["verify"])?.args(&arguments))?;
        assert_eq!(status, Some(code), "{arguments:?}: {output}{errors}");
        assert!(
            output.starts_with(verdict) && output.lines().count() == 1,
            "{arguments:?}: {output}"
        );
        assert_eq!(errors, "");
    }
    Ok(())
}

#[test]
fn wrong_calls_end_with_2() -> Result<()> {
    for arguments in [
        &["verify", "x"][..],
        &["verify", "--action", "activate"],
        &["verify", "--action", "Activate", "x"],
        &["verify", "--action", "activate", "x", "y"],
        &["sign"],
        &["sign", "--action", "recover"],
        &["sign", "--action", "recover", "--code", "1234"],
        &["sign", "--action", "activate", "--code", "12345"],
        &["verify", "--action", "activate", "-"],
        &["verify", "--action", "activate", "--key-file", "/nowhere", "x"],
        &["unknown"],
        &[],
    ] {
        let (status, output, errors) = run(&mut mailroom(arguments)?)?;
        assert_eq!(status, Some(2), "{arguments:?}: {output}{errors}");
        assert_eq!(output, "", "{arguments:?}");
        assert!(!errors.is_empty(), "{arguments:?}");
    }
    Ok(())
}

#[test]
fn further_actions_are_signed_and_verified_by_their_names() -> Result<()> {
    const INVITE: &str = "--further-action=invite=4:/invite:0";
    const CHANGE: &str = "--further-action=change_email=3:/account/email:6";
    for format in ["v2", "v3"] {
        let (_, key, _) = run(&mut mailroom(&["keygen", "--token-format", format])?)?;
        let run_with = |arguments: &[&str], variable: &str| -> Result<_> {
            let mut command = program::mailroom()?;
            let name = if format == "v3" { "MAILROOM_SIGNING_KEY" } else { "MAILROOM_SECRET_KEY" };
            command.env(name, key.trim());
            if !variable.is_empty() {
                command.env("MAILROOM_FURTHER_ACTIONS", variable);
            }
            run(command.args(arguments).stdin(Stdio::null()))
        };
        let sign = ["sign", "--token-format", format];
        let of = |rest: &[&'static str]| [&sign[..], rest].concat();
        let (status, invite, errors) = run_with(&of(&["--action", "invite", INVITE]), "")?;
        assert_eq!(status, Some(0), "{errors}");
        let (status, change, errors) =
            run_with(&of(&["--action", "change_email", "--code", "012345", INVITE, CHANGE]), "")?;
        assert_eq!(status, Some(0), "{errors}");
        let invite = invite.trim_end();
        let verify = ["verify", "--action", "invite"];
        let cases: [(&[&str], &str, &str); 4] = [
            (&[INVITE, invite], "", "valid"),
            (&[invite], "change_email=3:/account/email:6,invite=4:/invite:0", "valid"),
            (&[CHANGE, INVITE, change.trim_end()], "", "not valid: ERR_TOKEN_ACTION"),
            (
                &["--further-action", "invite=5:/invite:0", invite],
                "",
                "not valid: ERR_TOKEN_MALFORMED",
            ),
        ];
        for (arguments, variable, verdict) in cases {
            let (_, output, errors) = run_with(&[&verify[..], arguments].concat(), variable)?;
            assert!(output.starts_with(verdict), "{format} {arguments:?}: {output}{errors}");
        }
        let link = ["verify", "--link", "--action", "change_email", CHANGE, change.trim_end()];
        let (_, output, _) = run_with(&link, "")?;
        assert_eq!(output, "valid, apart from its code, which was not checked\n");
        let (_, output, _) = run_with(&["verify", "--action", "recover", invite], "")?;
        assert!(output.starts_with("not valid: ERR_TOKEN_MALFORMED"), "{output}");
    }
    Ok(())
}

#[test]
fn a_further_action_that_breaks_a_rule_stops_the_command() -> Result<()> {
    for (arguments, said) in [
        (&["--action", "invite"][..], "an action is `activate` or `recover`"),
        (&["--action", "x", "--further-action", "invite=4:/invite:0"], "or `recover` or `invite`"),
        (
            &["--action", "invite", "--further-action", "invite=4:/invite"],
            "NAME=NUMBER:PATH:DIGITS",
        ),
        (&["--action", "invite", "--further-action", "invite=2:/invite:0"], "from 3 to 127"),
        (&["--action", "invite", "--further-action", "invite=4:/invite:4"], "5 to 8 digits"),
        (&["--action", "invite", "--further-action", "invite=4:/recover:0"], "have the same path"),
        (
            &["--action", "invite", "--further-action", "invite=4:/invite:0"],
            "v1 signs `activate` and `recover`",
        ),
        (
            &[
                "--action",
                "invite",
                "--further-action",
                "invite=4:/invite:6",
                "--token-format",
                "v2",
            ],
            "its code of 6 digits",
        ),
    ] {
        let (status, output, errors) = run(mailroom(&["sign"])?.args(arguments))?;
        assert_eq!((status, output.as_str()), (Some(2), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(said), "{arguments:?}: {errors}");
    }
    let parts_missing =
        ["invite", "invite=4", "invite=:/invite:0", "invite=4:/invite:", "4=/invite:0"];
    let other_spellings = ["invite=4:/invite:0:0", "invite=+4:/invite:0", "invite=4:/invite:-0"];
    let no_numbers = ["invite=256:/invite:0", "invite=4 :/invite:0"];
    for text in parts_missing.iter().chain(&other_spellings).chain(&no_numbers) {
        let arguments =
            ["sign", "--token-format", "v2", "--action", "invite", "--further-action", text];
        let (status, _, errors) = run(&mut mailroom(&arguments)?)?;
        assert_eq!(status, Some(2), "{text}");
        assert!(errors.contains("but must be NAME=NUMBER:PATH:DIGITS"), "{text}: {errors}");
    }
    Ok(())
}

#[test]
fn a_secret_is_not_taken_as_an_argument() -> Result<()> {
    let secret = "a1".repeat(32);
    let (status, _, errors) =
        run(&mut mailroom(&["sign", "--action", "activate", "--secret", &secret])?)?;
    assert_eq!(status, Some(2));
    assert!(errors.contains("`--secret -`") && !errors.contains(&secret), "{errors}");
    for input in ["", "a1", &"a1".repeat(33), &"g1".repeat(32), &format!("{secret}\n{secret}")] {
        let mut command = mailroom(&["sign", "--action", "activate", "--secret", "-"])?;
        let (status, _, errors) = run_with_input(&mut command, input)?;
        assert_eq!(status, Some(2), "{input}");
        assert_eq!(
            errors,
            "mailroom: standard input must hold one secret of 64 hexadecimal characters and \
             nothing else\n"
        );
    }
    Ok(())
}

#[test]
fn a_random_secret_is_a_new_one_each_time() -> Result<()> {
    let mut tokens = HashSet::new();
    for _ in 0..3 {
        let (status, output, _) = run(&mut mailroom(&["sign", "--action", "activate"])?)?;
        assert_eq!(status, Some(0));
        assert_eq!(
            run(&mut mailroom(&["verify", "--action", "activate", output.trim_end()])?)?.0,
            Some(0)
        );
        tokens.insert(output);
    }
    assert_eq!(tokens.len(), 3);
    Ok(())
}

/// A secret whose token begins with the characters of two given sextets.
fn secret_beginning_with(first: u8, second: u8) -> String {
    let bits = u16::from(first) << 10 | u16::from(second) << 4;
    format!("{bits:04x}{}", "5a".repeat(30))
}

#[test]
fn a_token_is_verified_whatever_it_begins_with() -> Result<()> {
    for sextet in 0..64 {
        let token = sign(&["--action", "activate"], &secret_beginning_with(sextet, 27))?;
        for arguments in [&["--action", "activate", &token][..], &[&token, "--action", "activate"]]
        {
            let (status, output, errors) = run(mailroom(&["verify"])?.args(arguments))?;
            assert_eq!((status, output.as_str()), (Some(0), "valid\n"), "{token}: {errors}");
        }
    }
    Ok(())
}

#[test]
fn a_token_that_looks_like_a_flag_is_a_token() -> Result<()> {
    // The sextet of `-` is 62.
    let token = sign(&["--action", "activate"], &secret_beginning_with(62, 62))?;
    assert!(token.starts_with("--"), "{token}");
    for second in 0..64 {
        let token = sign(&["--action", "activate"], &secret_beginning_with(62, second))?;
        assert!(token.starts_with('-'), "{token}");
        for arguments in [
            &["--action", "activate", &token][..],
            &[&token, "--action", "activate"],
            &["--action", "activate", "--", &token],
        ] {
            let (status, output, errors) = run(mailroom(&["verify"])?.args(arguments))?;
            assert_eq!((status, output.as_str()), (Some(0), "valid\n"), "{token}: {errors}");
        }
    }
    // Genuine tokens that spell flags cannot be had, but they are judged as tokens.
    for start in [
        "--action",
        "--action-",
        "--help",
        "--code",
        "--json",
        "--key-file",
        "-h",
        "-V",
        "--version",
    ] {
        let token = format!("{start}{}", "A".repeat(86 - start.len()));
        let (status, output, errors) =
            run(&mut mailroom(&["verify", "--action", "activate", &token])?)?;
        assert_eq!(status, Some(1), "{token}: {output}{errors}");
        assert!(output.starts_with("not valid: ERR_TOKEN_SIGNATURE"), "{token}: {output}{errors}");
    }
    Ok(())
}

#[test]
fn tokens_come_from_standard_input_one_a_line() -> Result<()> {
    let activation = sign(&["--action", "activate"], &"a1".repeat(32))?;
    let mut command = mailroom(&["verify", "--action", "activate", "-"])?;
    let long = "x".repeat(2_000);
    let input =
        format!("{activation}\n{activation}\r\nnonsense\n\n {activation}\n{long}\n{activation}");
    let (status, output, errors) = run_with_input(&mut command, &input)?;
    assert_eq!(status, Some(1), "{errors}");
    let verdicts: Vec<_> = output.lines().map(|line| line.starts_with("valid")).collect();
    assert_eq!(verdicts, [true, true, false, false, false, false, true]);
    assert!(output.contains("2001"), "{output}");

    let one = sign(&["--action", "recover", "--code", "00001"], &"b1".repeat(32))?;
    let two = sign(&["--action", "recover", "--code", "00002"], &"b2".repeat(32))?;
    let input = format!("{one} 00001\n{two} 00002\n");
    let mut command = mailroom(&["verify", "--action", "recover", "-"])?;
    assert_eq!(
        run_with_input(&mut command, &input)?,
        (Some(0), "valid\nvalid\n".to_owned(), String::new())
    );
    let mut command = mailroom(&["verify", "--action", "recover", "--code", "00001", "-"])?;
    let (status, output, _) = run_with_input(&mut command, &format!("{one}\n{two}\n"))?;
    assert_eq!(status, Some(1));
    assert!(output.starts_with("valid\nnot valid: ERR_TOKEN_SIGNATURE"), "{output}");
    Ok(())
}

#[test]
fn verdicts_are_json_on_request() -> Result<()> {
    let token = sign(&["--action", "activate"], &"a1".repeat(32))?;
    let (_, output, _) =
        run(&mut mailroom(&["verify", "--json", "--action", "activate", &token])?)?;
    assert_eq!(output, "{\"valid\":true}\n");
    let (_, output, _) = run(&mut mailroom(&["verify", "--json", "--action", "activate", "x"])?)?;
    let verdict: serde_json::Value = serde_json::from_str(&output)?;
    assert_eq!(
        (&verdict["valid"], &verdict["reason"]),
        (&false.into(), &"ERR_TOKEN_MALFORMED".into())
    );
    assert!(verdict["message"].is_string());
    Ok(())
}

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

#[test]
fn a_wrong_call_never_repeats_a_token_a_secret_or_a_code() -> Result<()> {
    let token = sign(&["--action", "activate"], &"a1".repeat(32))?;
    let secret = "a1".repeat(32);
    let (code, attached, verified) =
        ("73912", format!("--code={secret}"), format!("--json={token}"));
    let unknown = format!("--secret-key={secret}");
    for arguments in [
        &["verify", "--action", "activate", &token, &token][..],
        &["verify", "--action", "activate", &token, "--", &token],
        &["verify", "--action", "activate", "--cod", code, &token],
        &["verify", "--action", "recover", "--code", code, "--code", code, &token],
        &["verify", "--action", &token, "x"],
        &["verify", "--action", "activate", "--secret", &secret],
        &["verify", "--action", "activate", "x", &verified],
        &["verify", &token],
        &["sign", "--action", "recover", "--code", "73912x"],
        &["sign", "--action", "recover", &attached],
        &["sign", "--action", "recover", "--cod", code],
        &["sign", "--action", "recover", "--code", code, "--secret", &secret],
        &["sign", "--action", "recover", "--code", code, "--code", "73912x"],
        &["sign", "--action", "activate", "--secret", "-", &secret],
        &["sign", "--action", &secret],
        &["sign", "--action", "activate", "--code", code],
        &["collect", &secret],
        &["collect", "--secret-key", &secret],
        &["collect", &unknown],
        &["migrate", "up", "--baseline", &secret],
        &["migrate", "--migrations-table", &token, "up"],
        &["prune", "--older-than", &token],
        &["keygen", &secret],
        &[&token],
        &[&secret],
        &[code],
    ] {
        let (status, output, errors) = run(&mut mailroom(arguments)?)?;
        assert_eq!((status, output.as_str()), (Some(2), ""), "{arguments:?}: {errors}");
        assert!(errors.starts_with("mailroom: "), "{arguments:?}: {errors}");
        for hidden in [token.as_str(), &token[..20], &secret, code] {
            assert!(!errors.contains(hidden), "{arguments:?}: {errors}");
        }
    }
    Ok(())
}

#[test]
fn a_value_that_an_argument_cannot_have_is_told_with_those_that_it_can() -> Result<()> {
    let (_, _, errors) = run(&mut mailroom(&["sign", "--action", "Recover"])?)?;
    let sentence = "the value of --action <ACTION> is missing or cannot be used: an action is \
                    `activate` or `recover`";
    assert_eq!(errors, format!("mailroom: {sentence}\nFor more information, try `--help`.\n"));
    Ok(())
}

#[test]
fn a_misspelt_name_is_told_and_the_right_one_proposed() -> Result<()> {
    for (arguments, sentence) in [
        (
            &["collect", "--bacth-limit", "5"][..],
            "`--bacth-limit` is not known to this command; did you mean `--batch-limit`?",
        ),
        (&["colect"], "there is no command `colect`; did you mean `collect`?"),
        (&["sign"], "the command needs --action <ACTION>"),
    ] {
        let (_, _, errors) = run(&mut mailroom(arguments)?)?;
        assert_eq!(errors.lines().next(), Some(&*format!("mailroom: {sentence}")), "{errors}");
        assert!(errors.contains("Usage: mailroom") && errors.contains("--help"), "{errors}");
    }
    Ok(())
}

#[test]
fn help_names_every_variable_and_shows_the_value_of_none() -> Result<()> {
    let mut command = mailroom(&["collect", "--help"])?;
    command.env("MAILROOM_SENDER", "send --password hunter2").env("MAILROOM_LEASE", "");
    let (status, output, errors) = run(&mut command)?;
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    for text in ["[env: MAILROOM_SENDER]", "[env: MAILROOM_LEASE]", "[default: 90s]"] {
        assert!(output.contains(text), "{text} is not in {output}");
    }
    assert!(!output.contains("hunter2") && !output.contains(KEY), "{output}");
    Ok(())
}

#[test]
fn a_flag_beats_its_variable_on_either_side_of_a_subcommand() -> Result<()> {
    for (arguments, sentence) in [
        (
            &["migrate", "--migrations-table", "a", "status"][..],
            "MAILROOM_DATABASE_URL is not set; ",
        ),
        (&["migrate", "status", "--migrations-table=a"], "MAILROOM_DATABASE_URL is not set; "),
        (&["migrate", "status"], "MAILROOM_MIGRATIONS_TABLE is `a.b.c`, but must be "),
    ] {
        let (status, _, errors) =
            run(mailroom(arguments)?.env("MAILROOM_MIGRATIONS_TABLE", "a.b.c"))?;
        assert_eq!(status, Some(2), "{arguments:?}: {errors}");
        assert!(errors.starts_with(&format!("mailroom: {sentence}")), "{arguments:?}: {errors}");
    }
    Ok(())
}
