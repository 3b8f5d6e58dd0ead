//! What a wrong call says, and what help and variables say.

use anyhow::Result;
use mailroom_tests::collector::KEY;

use super::{mailroom, run, run_with_input, sign};

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
