//! The headings under which options stand in the help, the same for all commands.

pub(crate) const DATABASE: &str = "Database";
pub(crate) const KEYS: &str = "Keys";
pub(crate) const SENDER: &str = "Sender";
pub(crate) const BATCHES: &str = "Batches";
pub(crate) const LIMITS: &str = "Limits";
pub(crate) const CLAIMS: &str = "Waking and claims";
pub(crate) const HOUSEKEEPING: &str = "Housekeeping";
pub(crate) const LOG: &str = "Metrics and log";
/// Hidden in the short help: they are for installations of the C collector.
pub(crate) const BASE: &str = "The queue of the base schema";
pub(crate) const OUTPUT: &str = "Output";
