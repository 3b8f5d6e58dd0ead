//! The templates that are shipped, and what can be looked at without sending.

use std::fs;

use anyhow::Result;
use mailroom_tests::program;
use mailroom_tests::sending::{Configuration, Sending, batch, key, token};
use serde_json::json;

#[test]
fn a_preview_shows_every_mail_in_all_its_forms() -> Result<()> {
    let configuration = Configuration::new("[smtp]\nserver = \"localhost\"\n")?;
    let folder = configuration.path("preview");
    let mut command = program::mailroom()?;
    command.args(["send", "--config"]).arg(configuration.file()).arg("--preview").arg(&folder);
    let output = command.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(folder.join("index.html"))?;
    for name in
        ["en-activate", "en-change_email", "en-invite", "en-notice", "en-recover", "en-sign_in"]
    {
        for ending in ["eml", "html", "txt"] {
            assert!(!fs::read(folder.join(format!("{name}.{ending}")))?.is_empty());
        }
        assert_eq!(page.matches(&format!("src=\"{name}.html\"")).count(), 2, "{page}");
        let html = fs::read_to_string(folder.join(format!("{name}.html")))?;
        // No remote content and nothing that tracks: the only addresses are those of the link.
        let outside = html.matches("://").count() - html.matches("https://example.test/").count();
        assert_eq!(
            (outside, html.matches("<img").count(), html.matches("<script").count()),
            (0, 0, 0),
            "{html}"
        );
        assert!(html.contains("<html lang=\"en\" dir=\"ltr\">"), "{html}");
        assert!(html.contains("color-scheme"), "{html}");
    }
    Ok(())
}

#[test]
fn a_dry_run_writes_files_and_answers_that_the_mails_were_sent() -> Result<()> {
    let configuration = Configuration::new("[smtp]\nserver = \"nowhere.invalid\"\n")?;
    let folder = configuration.path("mails");
    let arguments = ["--dry-run", &folder.display().to_string()];
    let mut sending = Sending::start(&configuration, &arguments)?;
    sending.write(&batch("b", &[(1, "ada@x.test")]))?;
    assert_eq!(sending.answer()?, json!({"batch": "b", "ok": [1]}));
    let mail = fs::read_to_string(folder.join(format!("{}.eml", key(1))))?;
    assert!(mail.contains("To: ada@x.test\r\n") && mail.contains(&token(1)[..20]), "{mail}");
    assert!(!configuration.path("journal").exists(), "what was not sent is not remembered as sent");
    Ok(())
}
