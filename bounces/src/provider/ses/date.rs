//! Times as SNS writes them.

/// Seconds since the Unix epoch of a time such as `2012-05-02T00:54:06.655Z`.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (head, fraction) = text.strip_suffix('Z')?.split_at_checked(19)?;
    let is_fraction =
        fraction.strip_prefix('.').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let form = head.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    if !form.eq(*b"0000-00-00T00:00:00") || !(fraction.is_empty() || is_fraction) {
        return None;
    }
    let number = |from: usize, to: usize| head[from..to].parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years that begin in March end with the leap day.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    // 1970-01-01 is day 719,469 of this count.
    Some((days - 719_469) * 86_400 + hour * 3_600 + minute * 60 + second)
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
