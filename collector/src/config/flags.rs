//! The flags of `mailroom collect`.

use std::ffi::OsString;

use super::DeliveryFlags;

/// The flags of `mailroom collect`, as they were written.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CollectFlags {
    #[arg(
        long,
        value_name = "FILE",
        help = "File of keys: the first line signs, the others only verify [env: MAILROOM_KEY_FILE]"
    )]
    pub(crate) key_file: Option<OsString>,

    #[arg(
        long,
        value_name = "FORMAT",
        help = "Format of the tokens: v1, v2 or v3 [env: MAILROOM_TOKEN_FORMAT] [default: v1]"
    )]
    pub(crate) token_format: Option<OsString>,

    #[arg(
        long,
        value_name = "NAME",
        help = "Channel on which the database announces tokens [env: MAILROOM_CHANNEL_NAME] [default: token_insert]"
    )]
    pub(crate) channel_name: Option<OsString>,

    #[arg(
        long,
        value_name = "NAME",
        help = "Row of the table `jobs` that keeps the cursor [env: MAILROOM_QUEUE_NAME] [default: mailroom]"
    )]
    pub(crate) queue_name: Option<OsString>,

    #[arg(
        long,
        value_name = "KIND",
        help = "Kind of the queue: deliveries or, on a schema before migration 15, cursor [env: MAILROOM_QUEUE_KIND] \
                [default: deliveries]"
    )]
    pub(crate) queue_kind: Option<OsString>,

    #[command(flatten)]
    pub(crate) deliveries: DeliveryFlags,

    #[arg(
        long,
        value_name = "MS",
        allow_negative_numbers = true,
        help = "How long a claimed batch is this collector's without being renewed, 1s to 24h, not below twice the \
                sender's timeout [env: MAILROOM_LEASE] [default: 90s]"
    )]
    pub(crate) lease: Option<OsString>,

    #[arg(
        long,
        value_name = "MS",
        allow_negative_numbers = true,
        help = "How often all tokens beyond the cursor are read again, 100ms to 24h, not below the batch timeout; polls \
                and questions to the listening connection are at most this far apart \
                [env: MAILROOM_HEALTHCHECK_INTERVAL] [default: 270000]"
    )]
    pub(crate) healthcheck_interval: Option<OsString>,

    #[arg(
        long,
        value_name = "MS",
        allow_negative_numbers = true,
        help = "How long a token waits for its batch to fill, 0 to 1h [env: MAILROOM_BATCH_TIMEOUT] [default: 5000]"
    )]
    pub(crate) batch_timeout: Option<OsString>,

    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        help = "Most tokens of a batch, which is one line, 1 to 10000 [env: MAILROOM_BATCH_LIMIT] [default: 10]"
    )]
    pub(crate) batch_limit: Option<OsString>,

    #[arg(
        long,
        value_name = "MS",
        allow_negative_numbers = true,
        help = "How often to look without having been woken, 100ms to 24h [env: MAILROOM_POLL_INTERVAL] [default: 5s]"
    )]
    pub(crate) poll_interval: Option<OsString>,

    #[arg(
        long,
        value_name = "HOW",
        help = "What makes the collector look: hints of the database and the poll, or the poll alone: hint or poll \
                [env: MAILROOM_WAKE] [default: hint]"
    )]
    pub(crate) wake: Option<OsString>,

    #[arg(
        long,
        value_name = "WHAT",
        help = "What to do at the start while the schema or a right to it is missing: wait or exit \
                [env: MAILROOM_MISSING_SCHEMA] [default: wait]"
    )]
    pub(crate) missing_schema: Option<OsString>,

    #[arg(
        long,
        value_name = "AGE",
        help = "Age from which hand-overs are pruned from the log, at least 1d, or `off` [env: MAILROOM_RETENTION] \
                [default: 30d]"
    )]
    pub(crate) retention: Option<OsString>,

    #[arg(
        long,
        value_name = "BATCHES",
        allow_negative_numbers = true,
        help = "Batches on their way to the reader at once, 1 to 1000, or `auto`, which follows how fast the reader \
                takes them [env: MAILROOM_PREFETCH] [default: auto]"
    )]
    pub(crate) prefetch: Option<OsString>,

    #[arg(
        long,
        value_name = "FORMAT",
        help = "Form of the lines: csv, or ndjson, which a sender always gets [env: MAILROOM_LINE_FORMAT] [default: csv]"
    )]
    pub(crate) line_format: Option<OsString>,

    #[arg(
        long,
        value_name = "COMMAND",
        help = "Program that sends the mails and answers for each; it is run with its arguments, without a shell, and \
                gets the lines instead of standard output [env: MAILROOM_SENDER]"
    )]
    pub(crate) sender: Option<OsString>,

    #[arg(
        long,
        value_name = "MS",
        allow_negative_numbers = true,
        help = "How long a sender may answer nothing before it is ended and started again, 100ms to 1h \
                [env: MAILROOM_SENDER_TIMEOUT] [default: 30s]"
    )]
    pub(crate) sender_timeout: Option<OsString>,

    #[arg(
        long,
        value_name = "FORMAT",
        help = "Form of the log lines on standard error: text or json [env: MAILROOM_LOG_FORMAT] [default: text]"
    )]
    pub(crate) log_format: Option<OsString>,

    #[arg(
        long,
        value_name = "LEVEL",
        help = "Least important log lines to write: error, warn, info or debug [env: MAILROOM_LOG_LEVEL] [default: info]"
    )]
    pub(crate) log_level: Option<OsString>,
}
