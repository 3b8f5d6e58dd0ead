//! How the bodies of a mail are encoded: never so that a link is cut into pieces.
//!
//! Quoted-printable cuts lines at 76 characters and writes `=` as `=3D`; programs that show or
//! forward the source make broken links of that. So what is ASCII goes out as it is, and HTML
//! always is, with references in place of other characters. A text with other characters, and what
//! has longer lines than mail servers take, is base64: 8bit needs a server that offers it, and the
//! bytes of a mail are prepared before one is asked.

use std::fmt::Write as _;

use lettre::message::Body;
use lettre::message::header::ContentTransferEncoding;

/// The longest line that is sent as it is. SMTP allows 998 characters (RFC 5321, 4.5.3.1.6), and
/// servers that count differently cut lines, by which signatures of DKIM break.
const MAX_LINE: usize = 900;

/// Elements in which a reference is text, and those in which a line break can be seen.
const RAW: [&str; 4] = ["script", "style", "pre", "textarea"];

/// A body without markup.
pub(crate) fn text(text: &str) -> Body {
    let wrapped: Vec<_> = text.lines().map(wrap).collect();
    let wrapped =
        wrapped.into_iter().collect::<Option<Vec<_>>>().map(|lines| lines.join("\r\n") + "\r\n");
    encode(wrapped, text)
}

/// A body in HTML.
pub(crate) fn html(html: &str) -> Body {
    encode(plain_html(html), html)
}

/// The plain form, if there is one that can be sent as it is.
fn encode(plain: Option<String>, original: &str) -> Body {
    let is_plain = |text: &String| {
        let is_allowed = |byte: u8| byte == b'\t' || byte == b' ' || byte.is_ascii_graphic();
        // Some servers put a sign before a line that begins with "From ",
        // which breaks signatures, too.
        let is_line = |line: &str| line.len() <= MAX_LINE && !line.starts_with("From ");
        text.split("\r\n").all(|line| is_line(line) && line.bytes().all(is_allowed))
    };
    match plain.filter(is_plain) {
        Some(plain) => {
            Body::dangerous_pre_encoded(plain.into_bytes(), ContentTransferEncoding::SevenBit)
        }
        None => Body::new_with_encoding(original.to_owned(), ContentTransferEncoding::Base64)
            .expect("base64 encodes everything"),
    }
}

/// Breaks a line at spaces where it is too long. Returns `None` if it has no space to break at.
fn wrap(line: &str) -> Option<String> {
    let mut wrapped = String::with_capacity(line.len());
    let mut rest = line;
    while rest.len() > MAX_LINE {
        let (begin, end) = rest.get(..MAX_LINE)?.rsplit_once(' ')?;
        wrapped.push_str(begin);
        wrapped.push_str("\r\n");
        rest = &rest[MAX_LINE - end.len()..];
    }
    Some(wrapped + rest)
}

/// HTML in ASCII, lines broken where nobody sees it;
/// `None` if a reference would mean something else somewhere.
fn plain_html(html: &str) -> Option<String> {
    // Most mails need neither; the walk through their characters is a quarter of their rendering.
    if html.is_ascii() && html.lines().all(|line| line.len() < MAX_LINE) {
        return Some(ended_by_crlf(html));
    }
    let mut plain = String::with_capacity(html.len() + html.len() / 8);
    let mut line = Line::default();
    let mut place = Place::Text;
    for (at, character) in html.char_indices() {
        place = place.next(html, at, character);
        if character == '\n' {
            line = Line { start: plain.len() + 1, space: None };
        }
        match character {
            ' ' if place.is_breakable() => line.space = Some(plain.len()),
            _ => {}
        }
        if character.is_ascii() {
            plain.push(character);
        } else if matches!(place, Place::Raw(_)) {
            return None;
        } else {
            write!(plain, "&#{};", u32::from(character))
                .expect("a string takes all that is written");
        }
        if let (true, Some(space)) = (plain.len() - line.start >= MAX_LINE, line.space) {
            plain.replace_range(space..=space, "\n");
            line = Line { start: space + 1, space: None };
        }
    }
    Some(ended_by_crlf(&plain))
}

fn ended_by_crlf(text: &str) -> String {
    let mut ended = String::with_capacity(text.len() + text.len() / 16 + 2);
    for line in text.lines() {
        ended.push_str(line);
        ended.push_str("\r\n");
    }
    if ended.is_empty() { "\r\n".to_owned() } else { ended }
}

/// The line that is being written.
#[derive(Default)]
struct Line {
    start: usize,
    /// Where it can be broken.
    space: Option<usize>,
}

/// Where in HTML a character stands.
#[derive(Clone, Copy)]
enum Place {
    Text,
    Tag,
    /// A value of an attribute, in these quotes.
    Value(char),
    Comment,
    /// An element of [`RAW`].
    Raw(&'static str),
}

impl Place {
    fn next(self, html: &str, at: usize, character: char) -> Self {
        let begins_with = |begin: &str, name: &str| {
            let rest = html[at..].strip_prefix(begin);
            let rest = rest.and_then(|rest| Some((rest.get(..name.len())?, &rest[name.len()..])));
            rest.is_some_and(|(found, rest)| {
                found.eq_ignore_ascii_case(name)
                    && !rest.starts_with(|next: char| next.is_ascii_alphanumeric())
            })
        };
        match (self, character) {
            (Self::Text, '<') if html[at..].starts_with("<!--") => Self::Comment,
            (Self::Comment, '>') if html[..at].ends_with("--") => Self::Text,
            (Self::Text, '<') => {
                RAW.into_iter().find(|name| begins_with("<", name)).map_or(Self::Tag, Self::Raw)
            }
            (Self::Tag, '>') => Self::Text,
            (Self::Tag, '"' | '\'') => Self::Value(character),
            (Self::Value(quote), _) if quote == character => Self::Tag,
            (Self::Raw(name), '<') if begins_with("</", name) => Self::Tag,
            _ => self,
        }
    }

    fn is_breakable(self) -> bool {
        matches!(self, Self::Text | Self::Tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64ct::{Base64, Encoding as _};

    fn plain(body: Body) -> String {
        assert_eq!(body.encoding(), ContentTransferEncoding::SevenBit);
        String::from_utf8(body.into_vec()).unwrap()
    }

    fn decoded(body: Body) -> String {
        assert_eq!(body.encoding(), ContentTransferEncoding::Base64);
        let text = String::from_utf8(body.into_vec()).unwrap();
        assert!(text.lines().all(|line| line.len() <= 76), "{text}");
        String::from_utf8(Base64::decode_vec(&text.replace("\r\n", "")).unwrap()).unwrap()
    }

    #[test]
    fn ascii_is_sent_as_it_is_with_lines_that_every_server_takes() {
        assert_eq!(plain(text("a = b\n\n.\nlast")), "a = b\r\n\r\n.\r\nlast\r\n");
        let words = "word ".repeat(500);
        let wrapped = plain(text(&words));
        assert!(
            wrapped.lines().count() == 3 && wrapped.lines().all(|line| line.len() <= 900),
            "{wrapped}"
        );
        assert_eq!(wrapped.replace("\r\n", " ").trim(), words.trim());
    }

    #[test]
    fn what_cannot_be_sent_as_it_is_is_base64() {
        let long = format!("https://example.org/{}", "x".repeat(2_000));
        for body in [
            "Gr\u{fc}\u{df}e\n",
            long.as_str(),
            "a\0b",
            "a\rb",
            "a\nFrom here",
            &format!("{long} b"),
            "\u{fc}".repeat(900).as_str(),
        ] {
            let encoded = decoded(text(body));
            assert_eq!(encoded.replace('\r', ""), body.replace('\r', ""), "{body}");
        }
        assert_eq!(
            decoded(html(&format!("<a href=\"{long}\">x</a>"))),
            format!("<a href=\"{long}\">x</a>")
        );
        // Style sheets and programs know no references.
        assert_eq!(
            decoded(html("<STYLE>a { content: '\u{fc}' }</style>")),
            "<STYLE>a { content: '\u{fc}' }</style>"
        );
    }

    #[test]
    fn html_that_needs_no_change_has_only_its_lines_ended() {
        assert_eq!(plain(html("")), "\r\n");
        for (page, ended) in [
            ("<p>a</p>", "<p>a</p>\r\n"),
            ("<pre>a\n\nb</pre>\n", "<pre>a\r\n\r\nb</pre>\r\n"),
            ("<p>a</p>\r\n", "<p>a</p>\r\n"),
        ] {
            assert_eq!(plain(html(page)), ended);
            // The walk through the characters comes to the same.
            let walked = plain(html(&format!("\u{fc}\n{page}")));
            assert_eq!(walked, format!("&#252;\r\n{ended}"));
        }
    }

    #[test]
    fn html_has_references_and_is_broken_where_nobody_sees_it() {
        let shown = plain(html(
            "<p title='\u{fc}'>\u{1f600} a</p>\n<style>p { x: y }</style><i>\u{fc}</i>",
        ));
        assert_eq!(
            shown,
            "<p title='&#252;'>&#128512; a</p>\r\n<style>p { x: y }</style><i>&#252;</i>\r\n"
        );
        let comment = plain(html("<!-- don't \u{fc} --><preview><b a='>'>\u{fc}</b>"));
        assert_eq!(comment, "<!-- don't &#252; --><preview><b a='>'>&#252;</b>\r\n");
        let value = "v ".repeat(200);
        let page = format!(
            "<p class=\"{value}\" id=\"{value}\" lang=\"{value}\">{}</p>",
            "word \u{fc} ".repeat(300)
        );
        let broken = plain(html(&page));
        assert!(broken.lines().all(|line| line.len() <= 900), "{broken}");
        assert_eq!(broken.trim().replace("\r\n", " ").replace("&#252;", "\u{fc}"), page);
        assert!(broken.contains(&format!("id=\"{value}\"")), "{broken}");
        let pre = format!("<pre>{}</pre>", "word ".repeat(500));
        assert_eq!(decoded(html(&pre)), pre);
    }
}
