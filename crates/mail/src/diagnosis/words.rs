//! The words of an answer.

/// The words of a text in lower case, each between blanks;
/// without addresses, and of URLs their words.
pub(super) fn plain(text: &str) -> String {
    write(text, false, |_| None)
}

/// Stands for the address of the recipient.
pub(super) const RECIPIENT: &str = "@";

/// Stands for its local part alone, which may be any noun: it says nothing.
pub(super) const NAME: &str = "named";

/// The words of a text, where others stand for some tokens, and one word for addresses of the
/// network; without URLs, identifiers and what is in an encoding that nobody named.
pub(super) fn words(text: &str, stands_for: impl Fn(&str) -> Option<&'static str>) -> String {
    write(text, true, stands_for)
}

fn write(
    text: &str,
    is_marking: bool,
    stands_for: impl Fn(&str) -> Option<&'static str>,
) -> String {
    let mut plain = String::from(" ");
    for token in
        text.split(|character: char| character.is_whitespace() || "<>()[],;\"".contains(character))
    {
        let token = token.trim_end_matches(['.', ':', '!', '?', '\'']).to_lowercase();
        if let Some(word) = stands_for(token.trim_matches('\'')) {
            plain.push_str(word);
            plain.push(' ');
            continue;
        }
        if is_marking && (token.contains('_') || token.contains("://") || is_unreadable(&token)) {
            continue;
        }
        if is_marking && token.parse::<std::net::IpAddr>().is_ok() {
            plain.push_str("literal ");
            continue;
        }
        let is_name = token.trim_matches('.').contains('.') && !token.contains('/');
        if token.contains('@') || is_name {
            continue;
        }
        let token = token.replace(['\'', '\u{2019}'], "");
        let is_url = token.contains("://");
        for word in token.split(|character: char| !character.is_alphanumeric()) {
            // The address that a URL carries says nothing.
            if !(word.is_empty() || is_url && word == "ip") {
                plain.push_str(word);
                plain.push(' ');
            }
        }
    }
    plain
}

/// Whether most of a token is no UTF-8. In a European language of another encoding a few letters of
/// a word are not.
fn is_unreadable(token: &str) -> bool {
    let readable = token.chars().filter(char::is_ascii_alphanumeric).count();
    token.contains(char::REPLACEMENT_CHARACTER) && 2 * readable < token.chars().count()
}
