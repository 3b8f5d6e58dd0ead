//! The parameters that limit how long a silent server is waited for.

use std::time::Duration;

use tokio_postgres::Config;

use super::SettingsError;
use super::parameters::Values;

// libpq leaves these to the kernel, which notices a lost peer after hours. Here an idle connection
// is probed after 3 s, then every 2 s, and given up after 8 s without an answer.
const CONNECT_TIMEOUT: u32 = 10;
const TCP_USER_TIMEOUT: u32 = 8000;
const KEEPALIVES_IDLE: u32 = 3;
const KEEPALIVES_INTERVAL: u32 = 2;
const KEEPALIVES_COUNT: u32 = 3;

/// Sets the time limits of a connection. What is not positive is left to the kernel.
pub(crate) fn apply(values: &Values, config: &mut Config) -> Result<(), SettingsError> {
    let number = |name, default| -> Result<Option<u32>, SettingsError> {
        let given = values.integer(name)?;
        Ok(given
            .map_or(Some(default), |number| u32::try_from(number).ok())
            .filter(|&number| number > 0))
    };
    let seconds = |number: u32| Duration::from_secs(number.into());

    if let Some(timeout) = number("connect_timeout", CONNECT_TIMEOUT)? {
        config.connect_timeout(seconds(timeout));
    }
    if let Some(timeout) = number("tcp_user_timeout", TCP_USER_TIMEOUT)? {
        config.tcp_user_timeout(Duration::from_millis(timeout.into()));
    }
    config.keepalives(values.integer("keepalives")?.is_none_or(|wanted| wanted != 0));
    if let Some(idle) = number("keepalives_idle", KEEPALIVES_IDLE)? {
        config.keepalives_idle(seconds(idle));
    }
    if let Some(interval) = number("keepalives_interval", KEEPALIVES_INTERVAL)? {
        config.keepalives_interval(seconds(interval));
    }
    if let Some(count) = number("keepalives_count", KEEPALIVES_COUNT)? {
        config.keepalives_retries(count);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(string: &str) -> Result<Config, SettingsError> {
        let mut config = Config::new();
        apply(&crate::keywords::parse(string).unwrap(), &mut config).map(|()| config)
    }

    #[test]
    fn silence_on_the_network_is_noticed_within_ten_seconds_by_default() {
        let config = config("").unwrap();
        assert!(config.get_keepalives());
        let (interval, count) =
            (config.get_keepalives_interval().unwrap(), config.get_keepalives_retries().unwrap());
        assert!(config.get_keepalives_idle() + interval * count < Duration::from_secs(10));
        assert!(*config.get_tcp_user_timeout().unwrap() < Duration::from_secs(10));
        assert!(*config.get_connect_timeout().unwrap() <= Duration::from_secs(10));
    }

    #[test]
    fn each_limit_can_be_set_or_left_to_the_kernel() {
        let limits = |string| {
            let config = config(string).unwrap();
            let (interval, count) =
                (config.get_keepalives_interval(), config.get_keepalives_retries());
            let timeouts = [config.get_tcp_user_timeout(), config.get_connect_timeout()]
                .map(Option::<&_>::cloned);
            (config.get_keepalives_idle().as_secs(), interval, count, timeouts)
        };
        let set = "keepalives_idle=7 keepalives_interval=' 8 ' keepalives_count=9 \
                   tcp_user_timeout=1500 connect_timeout=3";
        let milliseconds = |number| Some(Duration::from_millis(number));
        let timeouts = [milliseconds(1500), milliseconds(3000)];
        assert_eq!(limits(set), (7, milliseconds(8000), Some(9), timeouts));
        let unset = "keepalives_idle=0 keepalives_interval=-1 keepalives_count=0 \
                     tcp_user_timeout=0 connect_timeout=0";
        assert_eq!(limits(unset), (7200, None, None, [None; 2]));
        assert!(!config("keepalives=0").unwrap().get_keepalives());
    }

    #[test]
    fn limits_are_whole_numbers() {
        for string in [
            "connect_timeout=soon",
            "connect_timeout=1.5",
            "connect_timeout=2147483648",
            "keepalives=yes",
        ] {
            let error = config(string).unwrap_err().to_string();
            assert!(error.ends_with("must be a whole number"), "{error}");
        }
    }
}
