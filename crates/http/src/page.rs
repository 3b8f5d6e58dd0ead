//! Pages of servers on loopback: what each says to browsers, and the style that they share.

use hyper::HeaderMap;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

/// The style sheet of all of them: colours of light and dark, and controls.
pub const BASE_CSS: &str = include_str!("base.css");

/// Lets no other site embed, read or open an answer, and nobody keep it. `policy` says what a page
/// may load.
pub fn protect(headers: &mut HeaderMap, policy: &'static str) {
    let resources = HeaderName::from_static("cross-origin-resource-policy");
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (resources, "same-origin"),
        (opener, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
