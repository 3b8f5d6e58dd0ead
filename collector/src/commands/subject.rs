//! `mailroom subject`: exports or erases what is kept of a person.

use std::process::ExitCode;

use tokio_postgres::types::Type;

use super::{Outcome, connect_to_queue, print};
use crate::config::SchemaSetting;
use crate::log::display::Counted;

#[derive(clap::Args)]
pub(crate) struct SubjectArguments {
    #[command(subcommand)]
    action: SubjectAction,

    #[command(flatten)]
    schema: SchemaSetting,
}

#[derive(clap::Subcommand)]
enum SubjectAction {
    /// Print all that is kept of a subject, as JSON
    Export(Named),
    /// Erase all that is kept of a subject: its mails are not sent any more, its links are no
    /// longer good
    Forget(Named),
}

#[derive(clap::Args)]
struct Named {
    /// Id of the subject, as the application gave it to `enqueue`
    #[arg(value_name = "SUBJECT", required_unless_present = "address")]
    subject_id: Option<String>,

    /// Also of mails to this address that have no subject, and of those to it whose tokens were
    /// pruned
    #[arg(long)]
    address: Option<String>,
}

pub(crate) async fn run(SubjectArguments { action, schema }: SubjectArguments) -> Outcome {
    let (function, statement, named) = match &action {
        SubjectAction::Export(named) => (
            "mailroom.export_subject",
            "SELECT jsonb_pretty(mailroom.export_subject($1, $2)), 0::bigint",
            named,
        ),
        SubjectAction::Forget(named) => {
            ("mailroom.forget", "SELECT NULL::text, mailroom.forget($1, $2)", named)
        }
    };
    let (client, _) = connect_to_queue(schema, "mailroom subject", &[function]).await?;
    let parameters = [(&named.subject_id as _, Type::TEXT), (&named.address as _, Type::TEXT)];
    // A role or database may have a stricter level by default, in which nobody can be forgotten.
    client.raw.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    let row = client.query_typed_one(statement, &parameters).await?;
    client.raw.batch_execute("COMMIT").await?;
    match row.try_get(0)? {
        Some::<String>(exported) => print(exported)?,
        None => print(format_args!(
            "{} erased",
            Counted(row.try_get::<_, i64>(1)?, "token is", "tokens are")
        ))?,
    };
    Ok(ExitCode::SUCCESS)
}
