//! Mistakes that the protocol must not make. Each of them breaks a promise in some scenario, or the
//! model would prove nothing.

/// One mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A claim leases a token and leaves its row in the queue.
    ClaimKeepsRow,
    /// A lease that has lapsed is deleted, and its token is not put back.
    LapseForgets,
    /// A settlement finds its lease by the token, not by the batch.
    SettlesByToken,
    /// A settlement that finds no lease puts its token back into the queue all the same.
    SettlesWithoutLease,
    /// A settlement whose connection ends counts as recorded.
    ForgetsSettlement,
    /// A token counts as sent once its line is written.
    SettlesBeforeSending,
    /// A claim whose answer was lost, or that was answered after a stop, is given back although the
    /// sender has begun with it.
    ReleasesWhatWasBegun,
    /// The ids of batches come from a sequence, which a failover sets back.
    NumbersBatches,
    /// The journal records an attempt when it has an answer, not before the mail is handed over.
    RecordsTooLate,
    /// A third doubt is repeated like those before.
    DoubtsHaveNoEnd,
    /// What may have been delivered is logged as expired.
    ExpiresSilently,
    /// Redeeming reads whether the token was used, and writes that it is in another transaction.
    ReadsThenRedeems,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::ClaimKeepsRow,
        Self::LapseForgets,
        Self::SettlesByToken,
        Self::SettlesWithoutLease,
        Self::ForgetsSettlement,
        Self::SettlesBeforeSending,
        Self::ReleasesWhatWasBegun,
        Self::NumbersBatches,
        Self::RecordsTooLate,
        Self::DoubtsHaveNoEnd,
        Self::ExpiresSilently,
        Self::ReadsThenRedeems,
    ];
}
