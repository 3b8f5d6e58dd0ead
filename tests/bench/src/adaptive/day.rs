//! A day of a site: when mails become due, and how long its sender takes for a call.
//! The same in every run.

use std::time::Duration;

use fastrand::Rng;

const SEED: u64 = 17;

/// Mails an hour without the campaign.
const BY_HOUR: [u32; 24] = [
    100, 70, 50, 50, 60, 150, 600, 2_000, 4_000, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000, 5_000,
    5_000, 5_000, 6_000, 6_000, 5_000, 3_000, 1_000, 300,
];

/// The minutes of a campaign, and its mails an hour.
const CAMPAIGN: (u32, u32) = (12 * 60, 12 * 60 + 30);
const OF_THE_CAMPAIGN: u32 = 90_000;

/// The minutes in which the sender takes ten times as long.
const SLOW: (u32, u32) = (16 * 60, 17 * 60);

/// What a call takes, as one of an HTTP API that accepts many mails at once,
/// and what each of its mails adds.
const CALL: Duration = Duration::from_millis(150);
const MAIL: Duration = Duration::from_millis(5);

/// More mails than this never become due in one second.
const MOST_A_SECOND: u32 = 100;

/// When the mails of the day become due, in order.
pub(super) fn traffic() -> Vec<Duration> {
    let mut rng = Rng::with_seed(SEED);
    let mut due = Vec::new();
    for (hour, usual) in (0_u32..).zip(BY_HOUR) {
        for second in hour * 3_600..(hour + 1) * 3_600 {
            let is_campaign = (CAMPAIGN.0..CAMPAIGN.1).contains(&(second / 60));
            let rate = usual + if is_campaign { OF_THE_CAMPAIGN } else { 0 };
            let is_due = |rng: &mut Rng| rng.u32(..3_600 * MOST_A_SECOND) < rate;
            let count = (0..MOST_A_SECOND).filter(|_| is_due(&mut rng)).count();
            let start = due.len();
            due.extend((0..count).map(|_| {
                Duration::from_micros(u64::from(second) * 1_000_000 + rng.u64(..1_000_000))
            }));
            due[start..].sort_unstable();
        }
    }
    due
}

/// How long a call with so many mails takes that begins at this time.
pub(super) fn call(began: Duration, mails: usize) -> Duration {
    let minute = u32::try_from(began.as_secs() / 60).unwrap_or(u32::MAX);
    let is_slow = (SLOW.0..SLOW.1).contains(&minute);
    (CALL + MAIL * u32::try_from(mails).unwrap_or(u32::MAX)) * if is_slow { 10 } else { 1 }
}
