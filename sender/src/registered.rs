//! The domain that somebody registered, of a domain below it: whoever has one has all below it.

/// Second-level labels below which others register domains, in countries.
const SHARED: [&str; 12] =
    ["ac", "co", "com", "edu", "gob", "gov", "gouv", "mil", "net", "nom", "org", "web"];

/// The last two labels of a domain; in countries three, where the second one is shared.
///
/// There is no list of all such labels: two letters are taken for one of them.
pub(crate) fn registered(domain: &str) -> &str {
    let mut starts = domain.rmatch_indices('.').map(|(at, _)| at + 1);
    let Some(top) = starts.next() else { return domain };
    let second = starts.next().unwrap_or(0);
    let label = &domain[second..top - 1];
    let is_shared = domain.len() - top == 2 && (label.len() == 2 || SHARED.contains(&label));
    if is_shared && second > 0 { &domain[starts.next().unwrap_or(0)..] } else { &domain[second..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_below_one_that_somebody_registered_are_one() {
        for (domain, expected) in [
            ("", ""),
            ("localhost", "localhost"),
            ("x.test", "x.test"),
            ("a.b.x.test", "x.test"),
            ("a.x.de", "x.de"),
            ("co.uk", "co.uk"),
            ("x.co.uk", "x.co.uk"),
            ("a.b.x.co.uk", "x.co.uk"),
            ("a.x.com.br", "x.com.br"),
            (".x.test", "x.test"),
            ("x.test.", "test."),
        ] {
            assert_eq!(registered(domain), expected, "{domain}");
        }
    }
}
