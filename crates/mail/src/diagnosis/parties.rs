//! Whom an answer names: the recipient, its domain, or us.

/// Whether the first address that an answer names is another one:
/// the sender, or where the mail was passed on.
pub(super) fn is_about_another(said: &str, recipient: &str) -> bool {
    let Some((_, rest)) = said.split_once('<') else { return false };
    let Some((named, _)) = rest.split_once('>') else { return false };
    let is_address =
        named.contains('@') && named.is_ascii() && !named.contains(char::is_whitespace);
    is_address
        && !named.contains("://")
        && !named.starts_with("=?")
        && local(named) != local(recipient)
}

/// Whether an answer names the sender's address or domain, and not the recipient before it.
///
/// Of a recipient in the sender's own domain only the address counts.
pub(super) fn names_us(said: &str, sender: &str, recipient: &str) -> bool {
    let (said, ours) = (said.to_lowercase(), domain(sender));
    if ours.is_empty() {
        return false;
    }
    // Without its domain the tag counts, which nobody else has.
    let tagged = local(sender);
    if tagged.contains('+') && tokens(&said).any(|token| token == tagged) {
        return true;
    }
    let first = tokens(&said).find(|token| token.contains('@'));
    if let Some(address) = first {
        if local(address) == local(recipient) {
            return false;
        }
        let (ours_local, named) = (local(sender), local(address));
        let base = ours_local.split('+').next().unwrap_or_default();
        let is_sender = named == ours_local || named.split('+').next() == Some(base);
        if domain(address) == ours && is_sender {
            return true;
        }
    }
    let theirs = domain(recipient);
    !is_within(&ours, &theirs)
        && !is_within(&theirs, &ours)
        && tokens(&said).any(|token| {
            let named = domain(token);
            named.contains('.') && (is_within(&named, &ours) || is_within(&ours, &named))
        })
}

/// Whether an answer names the domain of the recipient.
pub(super) fn names_domain(said: &str, recipient: &str) -> bool {
    let theirs = domain(recipient);
    tokens(&said.to_lowercase()).any(|token| domain(token) == theirs)
}

/// Whether a word is the recipient's address or its local part.
pub(super) fn is_recipient(word: &str, recipient: &str) -> bool {
    !word.is_empty() && local(word) == local(recipient)
}

/// Whether a domain is another one, or below it.
fn is_within(one: &str, other: &str) -> bool {
    one.strip_suffix(other).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn local(address: &str) -> String {
    let address = address.rsplit_once('<').map_or(address, |(_, address)| address);
    let local = address.rsplit_once('@').map_or(address, |(local, _)| local);
    local.trim_matches('"').to_lowercase()
}

fn domain(text: &str) -> String {
    let domain = text.rsplit_once('@').map_or(text, |(_, domain)| domain);
    domain.trim_matches(['.', '>', '*', ' ']).to_lowercase()
}

/// What may be an address or a domain. The parts of URLs are neither.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(char::is_whitespace).filter(|word| !word.contains("://"));
    words
        .flat_map(|word| word.split(|character: char| "<>()[],;:\"'=/".contains(character)))
        .map(|word| word.trim_end_matches(['.', '!', '?']))
        .filter(|word| !word.is_empty())
}
