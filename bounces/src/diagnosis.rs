//! Whether what a mail server said proves that no mail can reach an address.
//!
//! Servers set the status of a report (RFC 3464) from the first digits of an answer, or always to
//! 5.0.0, and the answer itself says something else: that the sender's network is blocked, that a
//! mailbox is full. So an address counts as gone only if status and answer agree; in doubt it does
//! not, since a mail to nobody costs less than a person who gets no mail.

/// What a status code of RFC 3463 says of an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// No such mailbox, system or form of address; moved;
    /// no mail is taken there (RFC 3463, RFC 7505).
    Gone,
    /// A permanent failure without a reason, or one that servers use for several: the words decide.
    Open,
    /// For now, or about the mail, its sender or a network.
    Other,
}

/// Basic codes that say why: too much for the mailbox, or a server that closes.
const AGAINST: [&str; 2] = ["552", "521"];

/// Words that say that an address is gone, as `plain` writes them.
const GONE: &[&str] = &[
    " user unknown ",
    " unknown user ",
    " unknown recipient ",
    " recipient unknown ",
    " unknown mailbox ",
    " mailbox unknown ",
    " unknown address ",
    " address unknown ",
    " addressee unknown ",
    " unknown account ",
    " unknown local part ",
    " unknown or illegal alias ",
    " unknown email address ",
    " no such ",
    " user not found ",
    " recipient not found ",
    " mailbox not found ",
    " address not found ",
    " account not found ",
    " couldnt be found ",
    " recipient no longer on server ",
    " has moved ",
    " does not exist ",
    " doesnt exist ",
    " do not exist ",
    " did not exist ",
    " not exist ",
    " no longer exists ",
    " no longer valid ",
    " doesnt have a ",
    " invalid recipient ",
    " invalid mailbox ",
    " invalid address ",
    " invalid user ",
    " not a valid recipient ",
    " not a valid mailbox ",
    " not a valid user ",
    " not a valid address ",
    " no mailbox here ",
    " no mailbox by that name ",
    " is not a known user ",
    " not a known user ",
    " not known here ",
    " user not known ",
    " user is unknown ",
    " not our customer ",
    " not our user ",
    " not listed in domino directory ",
    " not listed in public name address book ",
    " unrouteable address ",
    " unroutable address ",
    " bad destination mailbox address ",
    " unknown host ",
    " host unknown ",
    " host not found ",
    " domain not found ",
    " unknown domain ",
    " invalid domain ",
    " illegal host ",
    " point to non existent hosts ",
    " does not accept mail ",
    " nullmx ",
    " null mx ",
    " infodomainnonexistent ",
];

/// Names of faults that Exchange writes in one word.
const GONE_NAMES: [&str; 3] = ["recipnotfound", "recipientnotfound", "infodomainnonexistent"];

/// Words that say that it is about something else: the sender, a network, a limit, a policy, the
/// content, a moment.
const OTHER: &[&str] = &[
    " ip ",
    " ips ",
    " blocked ",
    " blocking ",
    " block list ",
    " blocklist ",
    " blocklisted ",
    " black list ",
    " blacklist ",
    " blacklisted ",
    " deny list ",
    " denylist ",
    " denylisted ",
    " block listed ",
    " rbl ",
    " dnsbl ",
    " spamhaus ",
    " bl ",
    " is listed ",
    " listed at ",
    " listed by ",
    " reputation ",
    " banned ",
    " blackhole ",
    " limit ",
    " limits ",
    " limited ",
    " limiting ",
    " ratelimit ",
    " rate ",
    " rates ",
    " throttled ",
    " throttling ",
    " quota ",
    " overquota ",
    " too many ",
    " too much ",
    " too fast ",
    " too often ",
    " frequency ",
    " exceeded ",
    " exceeds ",
    " exceeding ",
    " full ",
    " storage ",
    " disk ",
    " insufficient ",
    " out of space ",
    " too large ",
    " too big ",
    " size ",
    " spam ",
    " spammer ",
    " spammy ",
    " uce ",
    " ube ",
    " unsolicited ",
    " junk ",
    " bulk ",
    " phishing ",
    " virus ",
    " malware ",
    " abuse ",
    " suspicious ",
    " dns ",
    " rdns ",
    " ptr ",
    " reverse ",
    " relay ",
    " relaying ",
    " relayed ",
    " policy ",
    " policies ",
    " policyviolation ",
    " prohibited ",
    " prohibition ",
    " restricted ",
    " restriction ",
    " restrictions ",
    " not permitted ",
    " not allowed ",
    " not authorized ",
    " not authorised ",
    " unauthorized ",
    " not accepted from ",
    " denied ",
    " preferences ",
    " sender ",
    " senders ",
    " mail from ",
    " mailfrom ",
    " from address ",
    " return path ",
    " helo ",
    " ehlo ",
    " client host ",
    " your host ",
    " your network ",
    " your server ",
    " your domain ",
    " hostname ",
    " spf ",
    " dkim ",
    " dmarc ",
    " arc ",
    " auth ",
    " authentication ",
    " authenticate ",
    " authenticated ",
    " unauthenticated ",
    " not verified ",
    " tls ",
    " certificate ",
    " starttls ",
    " content ",
    " attachment ",
    " attachments ",
    " filter ",
    " filtered ",
    " greylist ",
    " greylisted ",
    " greylisting ",
    " graylisted ",
    " temporary ",
    " temporarily ",
    " deferred ",
    " try later ",
    " try again later ",
    " not found try again ",
    " later ",
    " timeout ",
    " timed out ",
    " time out ",
    " expired ",
    " too long ",
    " loop ",
    " looping ",
    " hops ",
    " hop count ",
    " suspended ",
    " disabled ",
    " locked ",
    " frozen ",
    " unavailable for now ",
    " connection ",
    " connections ",
    " protocol ",
    " command ",
    " server error ",
    " internal error ",
    " servfail ",
    " lookup fail ",
    " lookup failed ",
    " lookup failure ",
    " lookup error ",
    " lookup timed out ",
    " ldap ",
    " database ",
    " backend ",
    " system error ",
    " unable to verify ",
    " unable to validate ",
    " cannot verify ",
    " cant verify ",
    " could not verify ",
    " cannot be verified ",
    " could not be verified ",
    " configuration ",
    " misconfigured ",
    " maintenance ",
    " service unavailable ",
    " right now ",
    " at this time ",
    " at the moment ",
    " standing ",
    " messages from ",
    " mails from ",
    " your country ",
    " your region ",
];

/// What Postfix writes behind what another server answered, when it asked only for the recipient.
const POSTFIX_STEP: &str = " in reply to rcpt to command ";

/// Says whether an address is gone, by the status of a report and by what the server answered, if
/// it is known.
///
/// The last status code in the answer counts: a server that passes on what another one said writes
/// it behind its own words. `is_after_content` says that the answer came when the server had seen
/// the content; without a code that says more it may be about that.
pub(crate) fn is_gone(status: &str, answer: &str, address: &str, is_after_content: bool) -> bool {
    let (kind, said) = match answer.split_once(';') {
        Some((kind, said)) if !kind.trim().contains(char::is_whitespace) => (kind.trim(), said),
        _ => ("", answer),
    };
    // A program on the server's own machine: whatever it says, it is not that the address is gone.
    if kind.eq_ignore_ascii_case("x-unix") {
        return false;
    }
    let stated = codes(status).next();
    let answered = codes(said).last();
    let meanings = [stated, answered].map(|code| code.map(meaning));
    if meanings.contains(&Some(Meaning::Other)) || basic_codes(said).any(is_against) {
        return false;
    }
    let words = plain(said).replace(POSTFIX_STEP, " ");
    let names_access = words.contains(" recipient address rejected access denied ");
    let is_tenant = [stated, answered].contains(&Some([5, 4, 1])) && names_access;
    // Directory-based edge blocking of Microsoft 365 has no other words
    // for an address that nobody has.
    if is_tenant {
        return !has_other_words(&words.replace(" access denied ", " "));
    }
    if has_other_words(&words) || is_about_another(said, address) {
        return false;
    }
    let says_gone = has_gone_words(&words, said) || is_ironport(&words, answered);
    let is_of_postfix = kind.eq_ignore_ascii_case("x-postfix") && !said.contains("://");
    match meanings {
        // Sendmail as a relay writes 5.1.1 for every 550 before the content, and 5.1.3 for 553.
        [Some(Meaning::Gone), None] => says_gone || says_nothing(&words, said) || is_of_postfix,
        [_, Some(Meaning::Gone)] => says_gone || !said.contains("://"),
        _ => (says_gone || is_outlook(said, answered)) && !is_after_content && !names_nobody(said),
    }
}

/// Whether a status or an answer says that a bounce is for now,
/// or about something else than the address.
pub(crate) fn speaks_against(status: &str, answer: &str, address: &str) -> bool {
    let said = answer.split_once(';').map_or(answer, |(_, said)| said);
    let mut codes = codes(status).next().into_iter().chain(codes(said).last());
    codes.any(|code| meaning(code) == Meaning::Other)
        || basic_codes(said).any(is_against)
        || has_other_words(&plain(said).replace(POSTFIX_STEP, " "))
        || is_about_another(said, address)
}

fn meaning(code: [u16; 3]) -> Meaning {
    match code {
        [5, 1, 1 | 2 | 3 | 6 | 10] => Meaning::Gone,
        // 5.1.351: the words of the next server follow. 5.4.4 and 5.4.310: no route, among others
        // to a domain that nobody has.
        [5, 0, _] | [5, 1 | 3 | 4 | 5, 0] | [5, 1, 351] | [5, 4, 1 | 4 | 310] => Meaning::Open,
        // 5.2.1 is also said of mailboxes that get too much, 5.1.7 and 5.1.8 are about the sender.
        _ => Meaning::Other,
    }
}

fn is_against(code: &str) -> bool {
    code.starts_with('4') || AGAINST.contains(&code)
}

fn has_other_words(words: &str) -> bool {
    OTHER.iter().any(|word| words.contains(word))
}

fn has_gone_words(words: &str, said: &str) -> bool {
    let lower = said.to_ascii_lowercase();
    GONE.iter().any(|word| words.contains(word))
        || GONE_NAMES.iter().any(|name| lower.contains(name))
}

/// `IronPort` of Cisco refuses an address that is not in its directory with these words alone.
fn is_ironport(words: &str, answered: Option<[u16; 3]>) -> bool {
    answered == Some([5, 1, 0])
        && words.ends_with(" address rejected ")
        && !words.contains(" recipient address ")
}

/// Outlook.com refuses an address that nobody has with the words of RFC 5321 for any 550, and with
/// this code and the tag of a server; in an answer about something else there are more words.
fn is_outlook(said: &str, answered: Option<[u16; 3]>) -> bool {
    let mut depth = 0_usize;
    let is_outside = |character: &char| {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    let words = plain(&said.chars().filter(is_outside).collect::<String>());
    answered == Some([5, 5, 0])
        && said.is_ascii()
        && words.replace(" requested action not taken ", " ") == " 550 mailbox unavailable "
}

/// Whether there is nothing but a basic code and addresses in an answer, which may be unknown.
fn says_nothing(words: &str, said: &str) -> bool {
    let is_code = |word: &str| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    said.is_ascii() && words.split_whitespace().all(|word| is_code(word) || word == "unknown")
}

/// Whether an answer has a place for an address and nothing in it, as filters of some networks for
/// mobile telephones write it.
fn names_nobody(said: &str) -> bool {
    said.match_indices(" : ")
        .any(|(at, _)| basic_codes(said).any(|code| said[..at].ends_with(code)))
}

/// Whether the first address that an answer names is another one:
/// the sender, or where the mail was passed on.
fn is_about_another(said: &str, address: &str) -> bool {
    let Some((_, rest)) = said.split_once('<') else { return false };
    let Some((named, _)) = rest.split_once('>') else { return false };
    let local = |address: &str| {
        let address = address.rsplit_once('<').map_or(address, |(_, address)| address);
        let local = address.rsplit_once('@').map_or(address, |(local, _)| local);
        local.trim_matches('"').to_lowercase()
    };
    let is_address =
        named.contains('@') && named.is_ascii() && !named.contains(char::is_whitespace);
    is_address
        && !named.contains("://")
        && !named.starts_with("=?")
        && local(named) != local(address)
}

/// The status codes (RFC 3463) in a text, which are no part of a longer number, name or address.
fn codes(text: &str) -> impl Iterator<Item = [u16; 3]> {
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
fn basic_codes(said: &str) -> impl Iterator<Item = &str> {
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

/// The words of a text in lower case, each between blanks;
/// without addresses, and of URLs their words.
fn plain(text: &str) -> String {
    let mut plain = String::from(" ");
    for token in
        text.split(|character: char| character.is_whitespace() || "<>()[],;\"".contains(character))
    {
        let token = token.trim_end_matches(['.', ':', '!', '?']).to_ascii_lowercase();
        let is_name = token.trim_matches('.').contains('.') && !token.contains('/');
        if token.contains('@') || is_name {
            continue;
        }
        let token = token.replace('\'', "");
        let is_url = token.contains("://");
        for word in token.split(|character: char| !character.is_ascii_alphanumeric()) {
            // The address that a URL carries says nothing.
            if !(word.is_empty() || is_url && word == "ip") {
                plain.push_str(word);
                plain.push(' ');
            }
        }
    }
    plain
}

#[cfg(test)]
#[path = "diagnosis_tests.rs"]
mod tests;
