//! `mailroom sign`, `verify` and `keygen`.

mod calls;
mod further_actions;
mod keys;

use std::collections::HashSet;
use std::fs;
use std::io::Write;
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
