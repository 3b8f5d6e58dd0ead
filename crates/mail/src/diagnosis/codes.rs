//! Codes in answers: those of RFC 3463 and the three digits of RFC 5321.

/// The status codes (RFC 3463) in a text, which are no part of a longer number, name or address.
pub(super) fn codes(text: &str) -> impl Iterator<Item = [u16; 3]> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '.';
    text.split(move |character| !is_part(character)).filter_map(|word| {
        let mut digits = word.trim_matches('.').split('.').map(|part| {
            let is_number = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| is_number)
        });
        let code = [digits.next()??, digits.next()??, digits.next()??];
        (digits.next().is_none() && matches!(code, [2 | 4 | 5, 0..=7, _])).then_some(code)
    })
}

/// The basic codes (RFC 5321) in an answer: three digits at its start
/// or behind what begins a quotation.
pub(super) fn basic_codes(said: &str) -> impl Iterator<Item = &str> {
    said.match_indices(['2', '4', '5']).filter_map(|(at, _)| {
        let code =
            said.get(at..at + 3).filter(|code| code.bytes().all(|byte| byte.is_ascii_digit()))?;
        let before = said[..at].trim_end();
        let begins = before.is_empty() || before.ends_with([':', ';', '>', '\'', '"', '-']);
        let is_apart = at == 0
            || !said[..at].ends_with(|last: char| last.is_ascii_alphanumeric() || last == '.');
        let after = said.as_bytes().get(at + 3);
        (begins && is_apart && matches!(after, None | Some(b' ' | b'-' | b'\t'))).then_some(code)
    })
}
