//! What templates may hold, and what the shipped ones say.

use super::*;

fn variables<'a>(action: &'a str, login: &'a str) -> Variables<'a> {
    Variables {
        product: "Example",
        language: "en",
        action,
        link: "https://example.org/x?token=t",
        code: "01234",
        email: "ada@x.test",
        login,
        expires: "2026-11-22 14:35 UTC",
        payload: &serde_json::Value::Null,
    }
}

/// The shipped templates with these files; a mail that has one of its three parts among them has
/// three in place of one.
fn with(change: &[(&str, &str)]) -> Result<Templates, Error> {
    let mut files: BTreeMap<_, _> = SHIPPED.iter().copied().map(owned).collect();
    for (name, _) in change {
        let stem = [".subject.txt", ".txt", ".html"].iter().find_map(|end| name.strip_suffix(end));
        if let Some(stem) = stem.filter(|stem| files.contains_key(&format!("{stem}{MAIL}"))) {
            files.remove(&format!("{stem}{MAIL}"));
            for part in ["subject.txt", "txt", "html"] {
                files.insert(format!("{stem}.{part}"), String::new());
            }
        }
    }
    files.extend(change.iter().copied().map(owned));
    Templates::parse(files, "tests")
}

/// As the collector gives them: no code for an action without one, no link for a notice.
fn of_shipped<'a>(language: &'a str, action: &'a str) -> Variables<'a> {
    let has_code = ["recover", "sign_in"].contains(&action);
    let variables = variables(action, "WIN MONEY http://evil.test");
    Variables {
        language,
        code: if has_code { variables.code } else { "" },
        link: if action == "notice" { "" } else { variables.link },
        ..variables
    }
}

#[test]
fn the_shipped_mails_have_link_and_code_of_their_action_and_none_has_what_a_stranger_chose() {
    let templates = Templates::read(None).unwrap();
    for (language, action) in templates.mails() {
        let variables = of_shipped(language, action);
        let mail = templates.render(&variables).unwrap();
        for body in [&mail.text, &mail.html] {
            let has_link = body.contains("https://example.org/x?token=t");
            assert_eq!(has_link, action != "notice", "{body}");
            assert_eq!(body.contains("01234"), !variables.code.is_empty(), "{body}");
            assert_eq!(body.contains("14:35"), action != "notice", "{body}");
            assert!(!body.contains("WIN MONEY"), "{body}");
            assert!(!body.contains("<img") && !body.contains("src="), "{body}");
            assert!(!body.contains("{{") && !body.contains("{%"), "{body}");
        }
        assert!(!mail.text.contains('<') && !mail.text.contains("\n\n\n"), "{}", mail.text);
        assert!(mail.html.starts_with("<!doctype html>"), "{}", mail.html);
        assert!(mail.html.contains(&format!("<html lang=\"{language}\" dir=\"ltr\">")));
        assert!(mail.subject.contains("Example"), "{}", mail.subject);
        assert_eq!(mail.subject.trim().lines().count(), 1, "{}", mail.subject);
        assert!(mail.text.starts_with(mail.subject.trim()), "{}", mail.text);
    }
}

#[test]
fn every_language_has_a_mail_for_every_action_of_a_new_installation_in_words_of_its_own() {
    let templates = Templates::read(None).unwrap();
    let actions = ["activate", "change_email", "invite", "notice", "recover", "sign_in"];
    let languages = ["de", "en", "es", "fr", "it", "nl", "pl", "pt"];
    let wanted = languages.into_iter().flat_map(|tag| actions.map(|action| (tag, action)));
    assert_eq!(templates.mails().collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    let mut seen = BTreeSet::new();
    for (language, action) in templates.mails() {
        let mail = templates.render(&of_shipped(language, action)).unwrap();
        let sentences = mail.text.lines().filter(|line| {
            !line.is_empty() && !line.starts_with("https:") && !line.ends_with("01234")
        });
        for sentence in sentences.filter(|sentence| !sentence.contains("14:35")) {
            let is_new = seen.insert(format!("{action} {sentence}"));
            assert!(is_new, "two languages say: {sentence}");
        }
    }
}

#[test]
fn a_notice_says_what_it_is_about_or_what_the_application_does() {
    let templates = Templates::read(None).unwrap();
    let say = |language, payload: &serde_json::Value| {
        templates.render(&Variables { payload, ..of_shipped(language, "notice") }).unwrap()
    };
    for (language, _) in templates.mails() {
        let about = ["recovered", "email_changed", "wrong_codes", "something else"]
            .map(|about| say(language, &serde_json::json!({"about": about})).text);
        let different: BTreeSet<_> = about.iter().collect();
        assert_eq!(different.len(), 4, "{about:?}");
    }
    let payload = serde_json::json!({"subject": "A new passkey", "text": "It was added to <you>."});
    let mail = say("en", &payload);
    assert_eq!(mail.subject.trim(), "A new passkey");
    assert!(mail.text.contains("added to <you>.") && mail.html.contains("added to &lt;you&gt;."));
}

/// Every shipped mail with the payload `null`, and the notices of what Mailroom tells of.
fn each_shipped(mut look: impl FnMut(&str, &Rendered)) {
    let templates = Templates::read(None).unwrap();
    for (language, action) in templates.mails() {
        let abouts = ["recovered", "email_changed", "wrong_codes"]
            .map(|about| serde_json::json!({"about": about}));
        let told = if action == "notice" { &abouts[..] } else { &[] };
        for payload in told.iter().chain([&serde_json::Value::Null]) {
            let variables = Variables { payload, ..of_shipped(language, action) };
            look(language, &templates.render(&variables).unwrap());
        }
    }
}

#[test]
fn subjects_and_preheaders_have_the_length_that_lists_of_mails_show() {
    each_shipped(|language, mail| {
        let subject = mail.subject.trim();
        assert!(subject.chars().count() <= 60, "{language}: {subject}");
        let (_, rest) = mail.html.split_once("overflow:hidden;\">").unwrap();
        let preheader = rest.split_once("</div>").unwrap().0.trim();
        // A shorter one is filled up by the first words of the mail.
        assert!((40..=110).contains(&preheader.chars().count()), "{language}: {preheader}");
    });
}

#[test]
fn the_shipped_mails_have_the_typography_of_their_language() {
    each_shipped(|language, mail| {
        let words = mail.text.lines().filter(|line| !line.starts_with("https:"));
        for line in words {
            assert!(!line.contains(['\'', '"']) && !line.contains("..."), "{language}: {line}");
            // French has a space before these, at which no line may end.
            let breaks = [" :", " ;", " ?", " !"].iter().any(|sign| line.contains(sign));
            assert!(!breaks, "{language}: {line}");
            let bare = line.match_indices([':', ';', '?', '!']).any(|(at, _)| {
                // Not the time of day.
                !line[..at].ends_with(|last: char| last == '\u{a0}' || last.is_ascii_digit())
            });
            assert!(language != "fr" || !bare, "{line}");
        }
    });
}

#[test]
fn a_language_from_right_to_left_keeps_the_time_in_its_order() {
    let words = "{% set direction = \"rtl\" %}{% set your_code = \"رمزك هو\" %}\
                 {% set copy = \"انسخ هذا العنوان:\" %}\
                 {% macro once(expires) %}حتى {{ expires }}.{% endmacro %}\
                 {% macro once_with_code(expires) %}حتى {{ expires }}.{% endmacro %}";
    let mail = "{% extends layout %}{% block subject %}حسابك في {{ product }}{% endblock %}";
    let templates =
        with(&[("ar/words.txt", words), ("ar/activate.mail", mail), ("ar/recover.mail", mail)]);
    let templates = templates.unwrap();
    for action in ACTIONS {
        let mail = templates.render(&of_shipped("ar", action)).unwrap();
        assert!(mail.html.contains("<html lang=\"ar\" dir=\"rtl\">"), "{}", mail.html);
        let time = "<span dir=\"ltr\" style=\"white-space:nowrap;\">2026-11-22 14:35 UTC</span>.";
        assert!(mail.html.contains(time), "{}", mail.html);
        // Without the isolates (Unicode Standard Annex 9) a reader gets 22-11-2026.
        assert!(mail.text.contains("\u{2066}2026-11-22 14:35 UTC\u{2069}."), "{}", mail.text);
    }
    let english = templates.render(&of_shipped("en", "activate")).unwrap();
    assert!(english.text.contains("until 2026-11-22 14:35 UTC."), "{}", english.text);
}

#[test]
fn a_folder_is_found_by_its_tag_in_whatever_spelling_and_names_the_language_as_html_does() {
    let shipped = |name: &str| SHIPPED.iter().find(|(other, _)| *other == name).unwrap().1;
    let templates = with(&[
        ("pt_BR/words.txt", shipped("pt/words.txt")),
        ("pt_BR/activate.mail", shipped("pt/activate.mail")),
        ("pt_BR/recover.mail", shipped("pt/recover.mail")),
    ])
    .unwrap();
    for tag in ["pt-BR", "pt_BR", "PT-br"] {
        assert_eq!(templates.language_of(tag, "activate"), Some("pt_BR"));
    }
    assert_eq!(templates.language_of("pt-BR", "invite"), None, "that is left to pt");
    let mail = templates.render(&of_shipped("pt_BR", "activate")).unwrap();
    assert!(mail.html.contains("<html lang=\"pt-BR\" "), "{}", mail.html);
}

#[test]
fn a_folder_without_mails_has_parts_of_others() {
    let templates = with(&[
        ("parts/greeting.txt", "Hello"),
        ("en/activate.txt", "{% include 'parts/greeting.txt' %}"),
    ])
    .unwrap();
    assert_eq!(templates.render(&variables("activate", "ada")).unwrap().text, "Hello");
    assert!(!templates.has_language("parts"));
}

#[test]
fn one_file_changes_colour_logo_and_footer_of_all_mails() {
    let brand = "{% set colour = \"#aa0000\" %}{% set on_colour = \"#fff\" %}\
                 {% set logo = \"<Acme>\" %}{% set footer = \"Acme Ltd, 1 Road\" %}";
    let templates = with(&[("brand.txt", brand)]).unwrap();
    for (language, action) in templates.mails() {
        let mail = templates.render(&of_shipped(language, action)).unwrap();
        assert_eq!(mail.html.contains("background:#aa0000"), action != "notice", "{}", mail.html);
        assert!(!mail.html.contains("#0b57d0"), "{}", mail.html);
        assert!(mail.html.contains("&lt;Acme&gt;") && mail.html.contains("Acme Ltd, 1 Road"));
        assert!(mail.text.trim_end().ends_with("Acme Ltd, 1 Road"), "{}", mail.text);
    }
}

#[test]
fn a_mail_has_one_file_or_three() {
    let error = with(&[("en/vote.mail", "x"), ("en/vote.txt", "x")]).unwrap_err().to_string();
    assert!(error.contains("en/vote.txt and en/vote.mail are the same mail"), "{error}");
    let mail = "{% extends layout %}{% block subject %}Vote{% endblock %}\
                {% block text %}Now & here.{% endblock %}{% block button %}Vote{% endblock %}";
    let templates = with(&[("en/vote.mail", mail)]).unwrap();
    let mail = templates.render(&variables("vote", "ada")).unwrap();
    assert_eq!(mail.subject.trim(), "Vote");
    assert!(mail.text.contains("Now & here.") && mail.text.contains("token=t"), "{}", mail.text);
}

#[test]
fn html_escapes_and_text_does_not() {
    let login = "<script>\"&'";
    let templates =
        with(&[("en/activate.html", "{{ login }}"), ("en/activate.txt", "{{ login }}")]).unwrap();
    let mail = templates.render(&variables("activate", login)).unwrap();
    assert_eq!(
        (mail.html.as_str(), mail.text.as_str()),
        ("&lt;script&gt;&quot;&amp;&#x27;", login)
    );
    let evil = templates.render(&variables("activate", "{{ product }}{% include 'x' %}")).unwrap();
    assert_eq!(evil.text, "{{ product }}{% include 'x' %}");
}

#[test]
fn a_template_that_does_not_parse_or_is_missing_is_named() {
    for (name, text, expected) in [
        ("en/activate.txt", "{% if %}", "en/activate.txt"),
        ("en/activate.txt", "{{ login", "en/activate.txt"),
        ("fi/activate.txt", "x", "fi/activate.subject.txt is missing"),
        ("fi/recover.mail", "x", "fi/activate.mail is missing"),
        ("en/vote.subject.txt", "x", "en/vote.txt is missing"),
    ] {
        let error = with(&[(name, text)]).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    assert!(Templates::parse([], "tests").unwrap_err().to_string().contains("no templates"));
}

/// Its words would be left out of the mail, and nobody would miss them.
#[test]
fn a_block_of_a_mail_that_no_layout_shows_is_an_error() {
    for (block, is_shown) in [
        ("{% block text %}x{% endblock %}", true),
        ("{% block txt %}x{% endblock %}", false),
        ("{%- block txt -%}x{%- endblock -%}", false),
        ("{% block text %}x{% block more %}y{% endblock %}{% endblock text %}", true),
        ("{% block text %}x{% endblock %}{% block more %}y{% endblock %}", false),
        ("{# {% block txt %}x{% endblock %} #}", true),
    ] {
        let mail = format!("{{% extends layout %}}{block}");
        let templates = with(&[("en/activate.mail", mail.as_str())]);
        assert_eq!(templates.is_ok(), is_shown, "{block}");
        if let Err(error) = templates {
            assert!(error.to_string().contains("en/activate.mail has the block "), "{error}");
        }
    }
}

#[test]
fn an_unknown_variable_is_an_error_that_names_the_template_and_no_value() {
    for text in [
        "{{ logn }}",
        "{{ login.first }}",
        "{% include 'nothing.txt' %}",
        "{{ login | nothing }}",
        "{{ login + 1 }}",
    ] {
        let templates = with(&[("en/activate.txt", text)]);
        let error = match templates {
            Ok(templates) => templates.render(&variables("activate", "ada-lovelace")).unwrap_err(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("en/activate.txt") && !error.contains("lovelace"), "{error}");
    }
    let unknown = Templates::read(None).unwrap().render(&variables("vote", "x")).unwrap_err();
    assert_eq!(unknown, "there is no template en/vote.subject.txt");
}

#[test]
fn a_template_shows_what_the_application_says_and_a_sample_of_it_is_json() {
    let mail = [
        ("en/invite.subject.txt", "Join {{ payload.team }}"),
        ("en/invite.txt", "{{ link }} {{ payload.team }}"),
        ("en/invite.html", "<p>{{ payload.team }}</p>"),
        ("en/invite.sample.json", r#"{"team": "A & B"}"#),
    ];
    let templates = with(&mail).unwrap();
    let payload = templates.sample("en", "invite");
    let rendered =
        templates.render(&Variables { payload: &payload, ..variables("invite", "ada") }).unwrap();
    assert_eq!(
        (rendered.subject.as_str(), rendered.html.as_str()),
        ("Join A & B", "<p>A &amp; B</p>")
    );
    assert_eq!(templates.language_of("fi", "invite"), None);
    assert_eq!(templates.language_of("EN", "invite"), Some("en"));
    let error = with(&[("en/invite.sample.json", "{")]).unwrap_err().to_string();
    assert!(error.contains("en/invite.sample.json is not JSON"), "{error}");
}

#[test]
fn what_a_payload_lacks_is_empty_and_a_variable_that_there_is_none_of_is_an_error() {
    let text = "{% if payload.by.name %}by {{ payload.by.name }}{% endif %}[{{ payload.team | \
                default('none') }}]{% if payload.by is defined %}!{% endif %}{% for one in \
                payload.all %}{{ one }}{% endfor %}{{ payload.x }}";
    let templates = with(&[("en/activate.txt", text)]).unwrap();
    for (payload, expected) in [
        (serde_json::json!(null), "[none]"),
        (serde_json::json!({"x": 1}), "[none]1"),
        (serde_json::json!({"by": null}), "[none]!"),
        (serde_json::json!({"by": {"name": "Bob"}, "all": [1, 2]}), "by Bob[none]!12"),
    ] {
        let variables = Variables { payload: &payload, ..variables("activate", "ada") };
        assert_eq!(templates.render(&variables).unwrap().text, expected);
    }
    for text in [
        "{% if paylod.x %}{% endif %}",
        "{{ logn }}",
        "{% set x = logn %}",
        "{{ logn is defined }}",
        "{% extends logn %}",
    ] {
        let error =
            with(&[("en/activate.txt", text)]).unwrap().render(&variables("activate", "ada"));
        let error = error.unwrap_err();
        assert!(
            error.contains("en/activate.txt cannot be filled in: there is no variable ")
                && error.ends_with(
                    "; there are action, code, email, expires, language, layout, link, login, \
                     payload, product"
                ),
            "{error}"
        );
    }
    let known = "{% set x = range(2) %}{% for y in x %}{{ loop.index }}{{ y }}{% endfor %}{% \
                 include 'en/x.txt' %}";
    let templates = with(&[("en/activate.txt", known), ("en/x.txt", "{{ x }}")]).unwrap();
    assert_eq!(templates.render(&variables("activate", "ada")).unwrap().text, "1021[0, 1]");
}

#[test]
fn an_html_body_escapes_also_what_a_text_shows_that_it_includes() {
    let templates = with(&[
        ("en/greeting.txt", "Hello {{ login }}"),
        ("en/link.html", "<i>{{ login }}</i>"),
        ("en/activate.html", "{% include 'en/greeting.txt' %}"),
        ("en/activate.txt", "{% include 'en/greeting.txt' %}{% include 'en/link.html' %}"),
    ]);
    let mail = templates.unwrap().render(&variables("activate", "<img src=x>")).unwrap();
    assert_eq!(mail.html, "Hello &lt;img src=x&gt;");
    assert_eq!(mail.text, "Hello <img src=x><i><img src=x></i>");
}

#[test]
fn the_written_templates_are_the_shipped_ones_and_overwrite_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("new/templates");
    write_shipped(&target).unwrap();
    let templates = Templates::read(Some(&target)).unwrap();
    assert!(templates.has_language("en") && !templates.has_language("fi"));
    assert_eq!(templates.mails().count(), 48);
    assert!(write_shipped(&target).unwrap_err().to_string().contains("is not empty"));
}

#[test]
fn what_editors_and_version_control_leave_in_a_folder_is_in_no_mail() {
    let folder = tempfile::tempdir().unwrap();
    write_shipped(folder.path()).unwrap();
    for name in ["brand.txt", "layout.html", "layout.subject.txt", "en/activate.mail"] {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("\u{feff}{}", text.replace('\n', "\r\n"))).unwrap();
    }
    fs::create_dir(folder.path().join(".git")).unwrap();
    fs::write(folder.path().join(".git/activate.txt"), "x").unwrap();
    fs::write(folder.path().join("en/.activate.mail"), [0xff]).unwrap();
    let templates = Templates::read(Some(folder.path())).unwrap();
    assert_eq!(templates.mails().count(), 48);
    let mail = templates.render(&of_shipped("en", "activate")).unwrap();
    assert_eq!(mail.subject.trim(), "Activate your Example account");
    assert!(mail.html.starts_with("<!doctype html>") && !mail.text.contains('\u{feff}'));
}

#[test]
fn a_layout_that_is_not_there_is_the_reason() {
    let without: Vec<_> =
        SHIPPED.iter().copied().filter(|(name, _)| *name != "layout.html").map(owned).collect();
    let templates = Templates::parse(without, "tests").unwrap();
    let error = templates.render(&of_shipped("en", "activate")).unwrap_err();
    assert!(error.ends_with("extends, imports or includes a file that is not there"), "{error}");
}

#[test]
fn a_folder_with_files_that_cannot_be_templates_is_described() {
    let folder = tempfile::tempdir().unwrap();
    write_shipped(folder.path()).unwrap();
    for (text, expected) in
        [(vec![0xff], "cannot be read"), (vec![b'a'; 262_145], "is larger than")]
    {
        fs::write(folder.path().join("en/activate.mail"), text).unwrap();
        let error = Templates::read(Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains("en/activate.mail") && error.contains(expected), "{error}");
    }
    let error = Templates::read(Some(&folder.path().join("nothing"))).unwrap_err().to_string();
    assert!(error.contains("nothing cannot be read"), "{error}");
}
