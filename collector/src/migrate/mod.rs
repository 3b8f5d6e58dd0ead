//! Bringing a database to the schema that this version of Mailroom works with.
//!
//! The migrations are the files of `migrations/`, embedded in the program. They are applied in the schema that comes
//! first on the connection's search path, and recorded there in the table `schema_migrations (version, dirty)`, or in another
//! one that is named, under the advisory lock that golang-migrate takes: either tool can go on where the other has stopped, and neither runs
//! while the other does.
//!
//! Each migration is one transaction together with its record; a file's own `BEGIN` and `COMMIT` are left out. A
//! migration that fails leaves the database as it was. One that waits for a table makes everybody wait who comes
//! after it, so it gives up after [`LOCK_TIMEOUT`], lets them pass and tries again; a `lock_timeout` that is set for
//! the session, the role or the database takes precedence.

mod advisory_lock;
mod error;
mod ledger;
mod lexer;
mod migration;
mod prerequisites;
mod progress;
mod run;
mod statements;
mod status;
mod transaction;

pub use advisory_lock::lock_ids;
pub use error::{Error, FailedStatement, Place};
pub use ledger::{RecordTable, Recorded};
pub use lexer::Unterminated;
pub use migration::{Direction, MIGRATIONS, Migration};
pub use progress::Progress;
pub use run::{DataLoss, Plan, baseline, down, up};
pub use status::{Entry, Status, status};
pub use transaction::{LOCK_ATTEMPTS, LOCK_TIMEOUT};
