//! Files of settings as systemd reads them: systemd.exec(5), `EnvironmentFile=`. Nothing is
//! expanded, so that a password may have any character.

use std::iter::Peekable;
use std::str::Chars;

type Rest<'a> = Peekable<Chars<'a>>;

/// The names and values of a file. Lines that assign nothing are left out, as systemd does.
pub(crate) fn assignments(text: &str) -> Vec<(String, String)> {
    let mut rest = text.chars().peekable();
    let mut found = Vec::new();
    while let Some(sign) = rest.next_if(|_| true) {
        match sign {
            sign if sign.is_whitespace() => {}
            '#' | ';' => skip_line(&mut rest),
            sign => {
                let name = name(sign, &mut rest);
                if rest.next() == Some('=') {
                    found.push((name.trim_end().to_owned(), value(&mut rest)));
                }
            }
        }
    }
    found
}

fn skip_line(rest: &mut Rest) {
    while rest.next_if(|sign| *sign != '\n').is_some() {}
}

fn name(first: char, rest: &mut Rest) -> String {
    let mut name = String::from(first);
    while let Some(sign) = rest.next_if(|sign| !['=', '\n'].contains(sign)) {
        name.push(sign);
    }
    name
}

/// Quoted parts, and then perhaps one without quotes, up to the end of the line.
fn value(rest: &mut Rest) -> String {
    let mut value = String::new();
    while let Some(sign) = rest.next_if(|sign| *sign != '\n') {
        match sign {
            '\'' => {
                value.extend(rest.by_ref().take_while(|sign| *sign != '\''));
            }
            '"' => double_quoted(rest, &mut value),
            sign if sign.is_whitespace() => {}
            sign => {
                unquoted(sign, rest, &mut value);
                break;
            }
        }
    }
    value
}

/// A backslash takes the meaning of what a shell gives one there, and continues the line.
fn double_quoted(rest: &mut Rest, value: &mut String) {
    while let Some(sign) = rest.next().filter(|sign| *sign != '"') {
        if sign != '\\' {
            value.push(sign);
            continue;
        }
        match rest.next() {
            None | Some('\n') => {}
            Some(sign @ ('"' | '\\' | '`' | '$')) => value.push(sign),
            Some(sign) => value.extend(['\\', sign]),
        }
    }
}

/// A backslash takes the meaning of the next character, or continues the line. Blanks at the end
/// are none of the value.
fn unquoted(first: char, rest: &mut Rest, value: &mut String) {
    let mut end = value.len();
    let mut next = Some(first);
    while let Some(sign) = next {
        if sign == '\\' {
            value.extend(rest.next().filter(|sign| *sign != '\n'));
            end = value.len();
        } else {
            value.push(sign);
            if !sign.is_whitespace() {
                end = value.len();
            }
        }
        next = rest.next_if(|sign| *sign != '\n');
    }
    value.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line, and the value that systemd 252 gives it.
    const VALUES: [(&str, &str); 15] = [
        ("plain", "plain"),
        ("  two words \t", "two words"),
        ("pa$$word#1;2", "pa$$word#1;2"),
        ("a=b=c", "a=b=c"),
        ("", ""),
        ("'single \\ $x'", "single \\ $x"),
        ("\"double \\\" \\$x \\n\"", "double \" $x \\n"),
        ("\"first\" 'second' third \"x\"", "firstsecondthird \"x\""),
        ("it's", "it's"),
        ("a\\ b\\\\c", "a b\\c"),
        ("kept\\ ", "kept "),
        ("one \\\ntwo", "one two"),
        ("\"one \\\ntwo\"", "one two"),
        ("'line\nfeed'", "line\nfeed"),
        ("\"it does not end", "it does not end"),
    ];

    #[test]
    fn values_are_read_as_systemd_does() {
        for (line, expected) in VALUES {
            let found = assignments(&format!("NAME={line}"));
            assert_eq!(found, [("NAME".to_owned(), expected.to_owned())], "{line:?}");
        }
    }

    #[test]
    fn comments_blank_lines_and_lines_that_assign_nothing_are_left_out() {
        let text = "# A=1\n\n  ; B=2\nC=3\nexport\r\n D = 4\r\nE=5";
        let names = assignments(text).into_iter().map(|(name, value)| name + "=" + &value);
        assert_eq!(names.collect::<Vec<_>>(), ["C=3", "D=4", "E=5"]);
    }
}
