//! What every page of a server on loopback says to browsers.

use hyper::HeaderMap;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

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
