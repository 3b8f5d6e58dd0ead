//! Actions that a product adds.

use std::process::Stdio;

use anyhow::Result;
use mailroom_tests::program;

use super::{mailroom, run};

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
