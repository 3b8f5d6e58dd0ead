//! What has become of all mails: who got one, who got more, and whose is listed as maybe delivered.

use std::collections::{BTreeMap, BTreeSet};

use mailroom_tests::mail_server::Mail;

/// The recipients of mails of which nobody knew
/// at some time whether the provider had accepted them.
pub(super) const DOUBTFUL: &str = "SELECT recipient_email FROM mailroom.issued_tokens
    WHERE id IN (SELECT token FROM mailroom.delivery_attempts WHERE outcome::text = 'in_doubt')";

/// Those of mails that are dead letters, because it was unknown to the end.
pub(super) const LISTED: &str = "SELECT recipient_email FROM mailroom.issued_tokens
    WHERE id IN (SELECT token FROM mailroom.dead_letters WHERE is_in_doubt)";

/// What has become of all tokens.
pub(super) struct Ends {
    /// All mails of each provider by their recipients.
    pub(super) mails: Vec<BTreeMap<String, Vec<Mail>>>,
    /// The recipients that [`DOUBTFUL`] and [`LISTED`] find.
    pub(super) doubtful: BTreeSet<String>,
    pub(super) listed: BTreeSet<String>,
}

impl Ends {
    /// How many of so many people got no mail and are not listed, either.
    pub(super) fn lost(&self, people: usize) -> usize {
        let reached = self.mails.iter().flat_map(BTreeMap::keys);
        people - reached.chain(&self.listed).collect::<BTreeSet<_>>().len()
    }

    /// The recipients of more than one mail by this provider; each mail must be the one before it,
    /// and must have been in doubt.
    pub(super) fn doubled(&self, provider: usize) -> Vec<&String> {
        let repeated = self.mails[provider].iter().filter(|(_, mails)| mails.len() > 1);
        let check = |(to, mails): (_, &Vec<Mail>)| {
            assert!(mails[0].header("Message-ID").is_some(), "{}", mails[0].content);
            assert!(mails.iter().all(|mail| *mail == mails[0]), "a mail is repeated as it was");
            assert!(
                self.doubtful.contains(to),
                "the mail to {to} is repeated, which was not in doubt"
            );
            assert!(mails.len() <= 3, "{} mails to {to}", mails.len());
            to
        };
        repeated.map(check).collect()
    }
}
