//! Configurations that cannot be used: one sentence, status 2, and nothing is sent.

use std::fs;

use anyhow::{Context, Result};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::program;
use mailroom_tests::sending::Configuration;

use super::run;

#[test]
fn what_is_wrong_is_said_at_the_start_in_one_sentence() -> Result<()> {
    let good = "[smtp]\nserver = \"localhost\"\n";
    let configuration = Configuration::new(good)?;
    let text = configuration.text()?;
    let templates = configuration.path("templates");
    let init = program::mailroom()?.args(["send", "--init"]).arg(&templates).output()?;
    let said = String::from_utf8(init.stderr)?;
    assert!(init.status.success() && said.contains("has the shipped templates"), "{said}");
    let with_templates = format!("templates = \"templates\"\n{text}");
    fs::write(configuration.path("empty"), "")?;
    let restore_templates = || -> Result<()> {
        fs::remove_dir_all(&templates)?;
        assert!(program::mailroom()?.args(["send", "--init"]).arg(&templates).status()?.success());
        Ok(())
    };
    for (text, expected) in [
        (text.replace("[smtp]", "[carrier_pigeon]"), "unknown field `carrier_pigeon`"),
        (text.replace(good, ""), "exactly one table of a provider"),
        (text.replace("us@x.test", "us"), "from must be an address"),
        (text.replace("https://", "javascript:"), "a base of links must begin with https://"),
        (format!("{text}password = \"hunter2\"\n"), "unknown field `password`"),
        (format!("{text}password_file = \"empty\"\n"), "a password and no username"),
        (format!("{text}username = \"us\"\n"), "password_file"),
        (format!("{text}username = \"us\"\npassword_file = \"empty\"\n"), "must hold one line"),
        (format!("{text}username = \"us\"\npassword_file = \"nothing\"\n"), "cannot be read"),
        (
            format!("{text}username = \"us\"\npassword_variable = \"MAILROOM_PASSWORD\"\n"),
            "begins with MAILROOM_",
        ),
        (format!("{text}connections = 0\n"), "connections must be from 1 to 64"),
        (format!("{text}timeout_seconds = 301\n"), "timeout_seconds must be from 1 to 300"),
        (format!("{text}ca_file = \"send.toml\"\n"), "holds no certificates"),
        (format!("language = \"fi\"\n{text}"), "no templates in the language fi"),
        (format!("templates = \"nothing\"\n{text}"), "nothing cannot be read"),
        (text.replace("\"journal\"", "\"no/journal\""), "no/journal.lock cannot be used"),
        (text.replace("\"journal\"", "\"send.toml\""), "is not a journal"),
    ] {
        configuration.write(&text)?;
        let (code, output, errors) = run(&configuration, &[])?;
        let is_failure = expected.contains("journal.lock");
        assert_eq!(
            (code, output.as_str()),
            (Some(if is_failure { 1 } else { 2 }), ""),
            "{expected}: {errors}"
        );
        assert!(
            errors.contains(expected) && errors.lines().count() == 1 && !errors.contains("hunter2"),
            "{expected}: {errors}"
        );
    }
    configuration.write(&with_templates)?;
    for (name, text, expected) in [
        ("en/activate.mail", "{% if %}", "en/activate.mail"),
        (
            "en/recover.mail",
            "{{ tokn }}",
            "en/recover.mail cannot be filled in: there is no variable tokn",
        ),
        ("en/recover.mail", "a\nb", "more than one line"),
        ("en/recover.txt", "x", "en/recover.txt and en/recover.mail are the same mail"),
        ("fi/recover.txt", "x", "fi/activate.mail is missing"),
        (
            "en/recover.mail",
            "{% extends layout %}{% block txt %}x{% endblock %}",
            "en/recover.mail has the block txt, which no layout shows; they show button, content, \
             preheader, subject, text, unasked",
        ),
    ] {
        restore_templates()?;
        let file = templates.join(name);
        fs::create_dir_all(file.parent().context("a template is in a folder")?)?;
        fs::write(file, text)?;
        let (code, _, errors) = run(&configuration, &["--check"])?;
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(expected) && errors.lines().count() == 1, "{errors}");
    }
    Ok(())
}

#[test]
fn a_template_that_has_lost_its_link_or_code_is_no_template() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let templates = configuration.path("templates");
    mailroom_sender::write_shipped(&templates)?;
    let written = fs::read_to_string(configuration.file())?;
    fs::write(configuration.file(), format!("templates = \"templates\"\n{written}"))?;
    let recover = templates.join("en/recover");
    fs::remove_file(recover.with_extension("mail"))?;
    fs::write(recover.with_extension("subject.txt"), "Recover your account")?;
    fs::write(recover.with_extension("txt"), "{{ link }} {{ code }}")?;
    // What a program that does not know the placeholders makes of them.
    fs::write(recover.with_extension("html"), "<a href=\"%7B%7B%20link%20%7D%7D\">{{ code }}</a>")?;
    let (code, _, errors) = run(&configuration, &["--check"])?;
    let said = "the mail en/recover does not show {{ link }} in its HTML";
    assert!(code == Some(2) && errors.contains(said), "{errors}");

    fs::write(recover.with_extension("html"), "<a href=\"{{ link }}\">{{ code }}</a>")?;
    for ending in ["subject.txt", "txt", "html"] {
        fs::write(templates.join("en/digest").with_extension(ending), "News")?;
    }
    let (code, output, errors) = run(&configuration, &["--check"])?;
    assert_eq!(code, Some(0), "{errors}");
    assert!(output.contains("warning: en/digest shows no {{ link }}"), "{output}");
    Ok(())
}

#[test]
fn a_check_connects_and_sends_nothing() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let (code, output, errors) = run(&configuration, &["--check"])?;
    assert_eq!((code, output.lines().count()), (Some(0), 4), "{output}{errors}");
    assert!(
        output.contains("48 mails can be written")
            && output.contains("the provider smtp answers and accepts"),
        "{output}"
    );
    assert_eq!(server.mails(), []);
    assert!(output.contains("timeout_seconds = 20 is below MAILROOM_SENDER_TIMEOUT"), "{output}");
    assert!(
        !configuration.path("journal").exists() && !configuration.path("journal.lock").exists()
    );
    // A journal with which no start would go on.
    fs::write(configuration.path("journal"), "mailroom send journal 4\nx\nsynced 26 36c03428\n")?;
    for arguments in [&["--check"][..], &[]] {
        let (code, _, errors) = run(&configuration, arguments)?;
        assert!(code == Some(1) && errors.contains("line 2 is damaged"), "{arguments:?}: {errors}");
    }
    fs::remove_file(configuration.path("journal"))?;
    // The collector would end a sender that waits for longer than it does.
    let patient = Configuration::smtp(server.port, "timeout_seconds = 60")?;
    let (code, _, errors) = run(&patient, &["--check"])?;
    assert!(code == Some(2) && errors.contains("not below MAILROOM_SENDER_TIMEOUT"), "{errors}");
    drop(server);
    let (code, output, errors) = run(&configuration, &["--check"])?;
    assert_eq!((code, output.as_str()), (Some(1), ""));
    assert!(
        errors.contains("no connection: no mail server listens there;")
            && errors.lines().count() == 1,
        "{errors}"
    );
    Ok(())
}
