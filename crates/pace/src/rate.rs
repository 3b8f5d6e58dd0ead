//! A rate as configurations have it: `14/s`, `23/min`, `500/h`, `10000/d`.

use std::time::Duration;

/// The largest number of a rate.
pub const MAX_RATE: u32 = 100_000;

/// The number of a rate, and the time that it is for; `None` of what is no rate.
pub fn parse_rate(text: &str) -> Option<(u32, Duration)> {
    let (number, unit) = text.split_once('/')?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number =
        number.parse().ok().filter(|number| is_number && (1..=MAX_RATE).contains(number))?;
    let seconds = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    Some((number, Duration::from_secs(seconds)))
}
