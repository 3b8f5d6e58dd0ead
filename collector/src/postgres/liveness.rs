//! How long silence is borne, when connecting and after.

use std::time::Duration;

use tokio_postgres::Config;

use super::SettingsError;
use super::parameter::Values;

// libpq leaves these to the kernel, where a peer that vanished is noticed after hours. Here an idle
// connection is asked for a sign of life after 3 s, then every 2 s, and given up after 8 s without an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(8);
const KEEP_ALIVE_IDLE: u32 = 3;
const KEEP_ALIVE_INTERVAL: u32 = 2;
const KEEP_ALIVE_COUNT: u32 = 3;

/// Time limits of a connection. `None` leaves one to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Liveness {
    /// For one address, from the first packet to the end of the authentication; `None` is for ever.
    pub(super) connect_timeout: Option<Duration>,
    keep_alive: Option<KeepAlive>,
    tcp_user_timeout: Option<Duration>,
}

/// When a silent connection over the network is asked for a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeepAlive {
    idle: Option<Duration>,
    interval: Option<Duration>,
    count: Option<u32>,
}

impl Liveness {
    pub(super) fn read(values: &Values) -> Result<Self, SettingsError> {
        let number = |name, default| -> Result<Option<u32>, SettingsError> {
            Ok(integer(values, name)?.map_or(Some(default), positive))
        };
        let seconds = |name, default| -> Result<Option<Duration>, SettingsError> {
            Ok(number(name, default)?.map(|seconds| Duration::from_secs(seconds.into())))
        };
        let keep_alive = KeepAlive {
            idle: seconds("keepalives_idle", KEEP_ALIVE_IDLE)?,
            interval: seconds("keepalives_interval", KEEP_ALIVE_INTERVAL)?,
            count: number("keepalives_count", KEEP_ALIVE_COUNT)?,
        };
        let wanted = integer(values, "keepalives")?.is_none_or(|wanted| wanted != 0);
        Ok(Self {
            connect_timeout: match integer(values, "connect_timeout")? {
                None => Some(CONNECT_TIMEOUT),
                Some(seconds) => positive(seconds).map(|seconds| Duration::from_secs(seconds.into())),
            },
            keep_alive: wanted.then_some(keep_alive),
            tcp_user_timeout: match integer(values, "tcp_user_timeout")? {
                None => Some(TCP_USER_TIMEOUT),
                Some(milliseconds) => {
                    positive(milliseconds).map(|number| Duration::from_millis(number.into()))
                }
            },
        })
    }

    pub(super) fn apply_to(&self, config: &mut Config) {
        if let Some(timeout) = self.connect_timeout {
            config.connect_timeout(timeout);
        }
        if let Some(timeout) = self.tcp_user_timeout {
            config.tcp_user_timeout(timeout);
        }
        config.keepalives(self.keep_alive.is_some());
        let Some(keep_alive) = self.keep_alive else { return };
        if let Some(idle) = keep_alive.idle {
            config.keepalives_idle(idle);
        }
        if let Some(interval) = keep_alive.interval {
            config.keepalives_interval(interval);
        }
        if let Some(count) = keep_alive.count {
            config.keepalives_retries(count);
        }
    }
}

/// A whole number in the range of C's `int`, which is what libpq reads.
fn integer(values: &Values, name: &'static str) -> Result<Option<i32>, SettingsError> {
    let Some((origin, value)) = values.non_empty(name)? else { return Ok(None) };
    match value.trim_ascii().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(SettingsError::InvalidValue { origin, allowed: "a whole number" }),
    }
}

fn positive(number: i32) -> Option<u32> {
    u32::try_from(number).ok().filter(|&number| number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(string: &str) -> Result<Liveness, SettingsError> {
        Liveness::read(&super::super::keyword::parse(string).unwrap())
    }

    #[test]
    fn silence_on_the_network_is_noticed_within_ten_seconds_by_default() {
        let liveness = read("").unwrap();
        let keep_alive = liveness.keep_alive.unwrap();
        let last_probe = keep_alive.idle.unwrap() + keep_alive.interval.unwrap() * keep_alive.count.unwrap();
        assert!(last_probe < Duration::from_secs(10));
        assert!(liveness.tcp_user_timeout.unwrap() < Duration::from_secs(10));
        assert!(liveness.connect_timeout.unwrap() <= Duration::from_secs(10));
    }

    #[test]
    fn zero_leaves_a_time_limit_to_the_kernel() {
        let string = "keepalives_idle=0 keepalives_interval=-1 keepalives_count=0 tcp_user_timeout=0 \
            connect_timeout=0";
        let liveness = read(string).unwrap();
        assert_eq!(liveness.keep_alive, Some(KeepAlive { idle: None, interval: None, count: None }));
        assert_eq!((liveness.tcp_user_timeout, liveness.connect_timeout), (None, None));
    }

    #[test]
    fn each_limit_can_be_set() {
        let string = "keepalives_idle=7 keepalives_interval=' 8 ' keepalives_count=9 tcp_user_timeout=1500 \
            connect_timeout=3";
        let liveness = read(string).unwrap();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(
            liveness.keep_alive,
            Some(KeepAlive { idle: seconds(7), interval: seconds(8), count: Some(9) })
        );
        assert_eq!(liveness.tcp_user_timeout, Some(Duration::from_millis(1500)));
        assert_eq!(liveness.connect_timeout, seconds(3));
        assert_eq!(read("keepalives=0").unwrap().keep_alive, None);
    }

    #[test]
    fn limits_are_whole_numbers() {
        for string in
            ["connect_timeout=soon", "connect_timeout=1.5", "connect_timeout=2147483648", "keepalives=yes"]
        {
            let error = read(string).unwrap_err().to_string();
            assert!(error.ends_with("must be a whole number"), "{error}");
        }
    }
}
