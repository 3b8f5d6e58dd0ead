//! Times as SNS writes them.

use mail_parser::DateTime;

/// Seconds since the Unix epoch of a time such as `2012-05-02T00:54:06.655Z`.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (head, fraction) = text.strip_suffix('Z')?.split_at_checked(19)?;
    let is_fraction = fraction
        .strip_prefix('.')
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let form = head.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    if !form.eq(*b"0000-00-00T00:00:00") || !(fraction.is_empty() || is_fraction) {
        return None;
    }
    let time = DateTime::parse_rfc3339(&format!("{head}Z"))?;
    let is_day = (1970..=9999).contains(&time.year)
        && (1..=12).contains(&time.month)
        && (1..=31).contains(&time.day);
    u64::try_from(time.to_timestamp())
        .ok()
        .filter(|_| is_day && time.hour <= 23 && time.minute <= 59 && time.second <= 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_the_epoch_and_nothing_else_is_one() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2012-05-02T00:54:06.655Z", 1_335_920_046),
            ("2000-02-29T23:59:59.000Z", 951_868_799),
            ("2026-11-23T12:00:00.1Z", 1_795_435_200),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "Z",
            "2012-05-02T00:54:06",
            "2012-05-02 00:54:06Z",
            "2012-13-02T00:54:06Z",
            "2012-05-00T00:54:06Z",
            "2012-05-02T24:54:06Z",
            "2012-05-02T00:60:06Z",
            "1969-05-02T00:54:06Z",
            "+012-05-02T00:54:06Z",
            "2012-05-02T00:54:06.x5Z",
            "2012-05-02T00:54:06+01:00",
            "2012-05-02T00:54:0\u{661}Z",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
