//! The words of an answer.

/// The words of a text in lower case, each between blanks;
/// without addresses, and of URLs their words.
pub(super) fn plain(text: &str) -> String {
    write(text, false, |_| false)
}

/// Stands for the recipient.
pub(super) const RECIPIENT: &str = "@";

/// The words of a text, where `RECIPIENT` stands for tokens that are the recipient, and one word
/// for addresses of the network; without URLs and identifiers.
pub(super) fn words(text: &str, is_recipient: impl Fn(&str) -> bool) -> String {
    write(text, true, is_recipient)
}

fn write(text: &str, is_marking: bool, is_recipient: impl Fn(&str) -> bool) -> String {
    let mut plain = String::from(" ");
    for token in
        text.split(|character: char| character.is_whitespace() || "<>()[],;\"".contains(character))
    {
        let token = token.trim_end_matches(['.', ':', '!', '?', '\'']).to_lowercase();
        if is_recipient(token.trim_matches('\'')) {
            plain.push_str(RECIPIENT);
            plain.push(' ');
            continue;
        }
        if is_marking && (token.contains('_') || token.contains("://")) {
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
