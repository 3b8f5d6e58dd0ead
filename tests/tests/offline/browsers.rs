//! `mailroom sign --binding` and `verify --binding`: links for the browser that asked for them.

use std::fs;

use anyhow::{Context, Result};
use mailroom_tests::collector::KEY;
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::tools::workspace;
use mailroom_verifier_core::Binding;
use serde_json::{Value, json};

use crate::formats::{mailroom, private_key, run, text};

/// What the database has of a browser.
const BINDING: &str = "b9e260ad2a53014fc325099499a79eda";
const OTHER: &str = "b9e260ad2a53014fc325099499a79edb";
const FURTHER: &str = "change_email=3:/change_email:6,invite=4:/invite:0,sign_in=127:/sign_in:8";

fn binding_of(nonce: &str) -> Option<String> {
    let binding = Binding::of_nonce(nonce)?;
    Some(hexadecimal(binding.as_bytes()))
}

#[test]
fn signing_and_verifying_bound_links_agree_with_the_vectors() -> Result<()> {
    let vectors: Value =
        serde_json::from_str(&fs::read_to_string(workspace().join("tests/vectors/bound.json"))?)?;
    let (mut signed, mut judged) = (0, 0);
    for group in vectors["groups"].as_array().context("groups")? {
        let action = text(&group["action"])?;
        let (name, key) = match group["private_key"].as_str() {
            Some(seed) => ("MAILROOM_SIGNING_KEY", private_key(seed)?),
            None => ("MAILROOM_SECRET_KEY", text(&group["key"])?.to_owned()),
        };
        let variables = [(name, key.as_str()), ("MAILROOM_FURTHER_ACTIONS", FURTHER)];
        let tests = group["tests"].as_array().context("tests")?;
        let genuine =
            tests.iter().find(|test| test["comment"] == "genuine").context("a genuine case")?;
        let binding = binding_of(text(&genuine["nonce"])?).context("its nonce")?;
        let (format, expiry) =
            (format!("v{}", group["version"]), genuine["expires_at"].to_string());
        let mut command = mailroom(&["sign", "--secret", "-", "--action", action], &variables)?;
        command.args(["--token-format", &format, "--expires-at", &expiry, "--binding", &binding]);
        // A v3 token does not depend on its code.
        let digits = group["actions"][action]["digits"].as_u64().context("digits")?;
        if digits > 0 {
            let zeros = "0".repeat(usize::try_from(digits)?);
            command.args(["--code", genuine["code"].as_str().unwrap_or(&zeros)]);
        }
        let (status, output, errors) = run(&mut command, text(&genuine["secret"])?)?;
        assert_eq!(
            (status, output.trim_end()),
            (Some(0), text(&genuine["token"])?),
            "{format} {action}: {errors}"
        );
        signed += 1;
        for test in tests.iter().step_by(11) {
            let at = test["now"].to_string();
            let mut command =
                mailroom(&["verify", "--json", "--action", action, "--at", &at], &variables)?;
            if let Some(code) = test["code"].as_str() {
                command.arg(format!("--code={code}"));
            }
            if let Some(binding) = test["nonce"].as_str().and_then(binding_of) {
                command.args(["--binding", &binding]);
            }
            let (_, output, errors) = run(command.args(["--", text(&test["token"])?]), "")?;
            let verdict: Value = serde_json::from_str(&output).with_context(|| errors)?;
            assert_eq!(verdict["reason"], test["error"], "tcId {}: {output}", test["tcId"]);
            judged += 1;
        }
    }
    assert_eq!((signed, judged), (10, 66));
    Ok(())
}

#[test]
fn a_bound_link_is_valid_in_its_browser_and_as_a_link_says_where_it_is() -> Result<()> {
    let variables = [("MAILROOM_SECRET_KEY", KEY)];
    let signing = &[
        "sign",
        "--action",
        "recover",
        "--code",
        "04711",
        "--token-format",
        "v2",
        "--binding",
        BINDING,
    ];
    let (_, token, _) = run(&mut mailroom(signing, &variables)?, "")?;
    let partly = "valid, apart from its code, which was not checked";
    for (arguments, verdict) in [
        (&["--code", "04711", "--binding", BINDING][..], "valid\n".to_owned()),
        (
            &["--code", "04711", "--binding", OTHER],
            "not valid: ERR_TOKEN_OTHER_BROWSER: ".to_owned(),
        ),
        (&["--code", "04711"], "not valid: ERR_TOKEN_OTHER_BROWSER: ".to_owned()),
        (&["--code", "04712", "--binding", BINDING], "not valid: ERR_CODE_MISMATCH: ".to_owned()),
        (&["--link", "--binding", BINDING], format!("{partly}\n")),
        (&["--link", "--binding", OTHER], format!("{partly}, and bound to another browser\n")),
        (&["--link"], format!("{partly}, and bound to another browser\n")),
    ] {
        let mut command =
            mailroom(&["verify", "--action", "recover", token.trim_end()], &variables)?;
        let (status, output, errors) = run(command.args(arguments), "")?;
        assert!(output.starts_with(&verdict), "{arguments:?}: {output}{errors}");
        assert_eq!(status, Some(i32::from(verdict.starts_with("not"))));
    }
    let json = &["verify", "--json", "--link", "--action", "recover", token.trim_end()];
    let (_, output, _) = run(&mut mailroom(json, &variables)?, "")?;
    let expected = json!({ "valid": true, "code_checked": false, "browser": "other" });
    assert_eq!(serde_json::from_str::<Value>(&output)?, expected);
    Ok(())
}

#[test]
fn v1_is_signed_for_no_browser_and_a_binding_has_one_length() -> Result<()> {
    let variables = [("MAILROOM_SECRET_KEY", KEY)];
    let signing = &["sign", "--action", "activate", "--binding", BINDING];
    let (status, output, errors) = run(&mut mailroom(signing, &variables)?, "")?;
    assert_eq!((status, output.as_str()), (Some(2), ""));
    assert!(errors.contains("v1 cannot bind a link to a browser"), "{errors}");
    let nonce = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    for wrong in ["", "b9", &BINDING[1..], &format!("{BINDING}00"), &"g".repeat(32), nonce] {
        for command in ["sign", "verify"] {
            let binding = format!("--binding={wrong}");
            let mut arguments =
                vec![command, "--action", "activate", "--token-format=v2", &binding];
            if command == "verify" {
                arguments[3] = "AAAA";
            }
            let (status, output, errors) = run(&mut mailroom(&arguments, &variables)?, "")?;
            assert_eq!((status, output.as_str()), (Some(2), ""), "{command} {wrong}");
            assert!(errors.contains("--binding") && !errors.contains(nonce), "{errors}");
        }
    }
    Ok(())
}
