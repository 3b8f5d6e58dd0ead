//! Light and dark: what a mail looks like to somebody whose system is set to either.
//!
//! A browser tells a page its own setting alone, so that the mail itself is changed: what it asks
//! for the setting by is answered here.

use std::borrow::Cow;

/// What the media feature is called.
const FEATURE: &str = "prefers-color-scheme";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "light" => Some(Self::Light),
            "dark" => Some(Self::Dark),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        if self == Self::Dark { "dark" } else { "light" }
    }

    /// The HTML with each `prefers-color-scheme: …` replaced by what is always or never true, for
    /// the frames of the page.
    pub(crate) fn impose(self, html: &str) -> String {
        let mut imposed = String::with_capacity(html.len() + 64);
        let mut rest = html;
        while let Some((before, after)) = rest.split_once(FEATURE) {
            imposed.push_str(before);
            let asked = asked(after);
            imposed.push_str(&asked.map_or(Cow::Borrowed(FEATURE), |(scheme, _)| {
                Cow::Borrowed(if scheme == self { "min-width: 0" } else { "max-width: 0" })
            }));
            rest = asked.map_or(after, |(_, rest)| rest);
        }
        let name = self.name();
        // At the end, because before its first line the mail would be read as of another age. Links
        // open new tabs, because a frame shows nothing but mails.
        imposed
            + rest
            + "\n<style>:root { color-scheme: "
            + name
            + " !important; }</style><base target=\"_blank\">\n"
    }
}

/// The scheme behind the feature's name, and the rest.
fn asked(text: &str) -> Option<(Scheme, &str)> {
    let value = text.trim_start().strip_prefix(':')?.trim_start();
    let end = value.find(|character: char| !character.is_ascii_alphabetic())?;
    Some((Scheme::named(&value[..end])?, &value[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mail_asks_for_is_answered_as_by_a_system_of_that_setting() {
        let html = "@media (prefers-color-scheme:dark) {a} @media (prefers-color-scheme : light) \
                    {b} prefers-color-scheme: none";
        let end = |name| {
            let style = format!("<style>:root {{ color-scheme: {name} !important; }}</style>");
            format!("\n{style}<base target=\"_blank\">\n")
        };
        let dark = "@media (min-width: 0) {a} @media (max-width: 0) {b} prefers-color-scheme: none";
        assert_eq!(Scheme::Dark.impose(html), dark.to_owned() + &end("dark"));
        let light =
            "@media (max-width: 0) {a} @media (min-width: 0) {b} prefers-color-scheme: none";
        assert_eq!(Scheme::Light.impose(html), light.to_owned() + &end("light"));
    }
}
