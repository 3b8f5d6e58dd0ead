//! The command line: the commands, how their arguments and settings are read, and what is reported
//! if that fails.
//!
//! Some arguments are tokens and codes, others may be secrets. So nothing of what was written is
//! repeated, except for what can only be a misspelt name,
//! and for values of settings that look like no key.

mod closings;
mod help;
mod refusal;

use std::env;

use clap::error::ErrorKind;
use clap::{Arg, CommandFactory, Error, FromArgMatches, Parser};

pub(crate) use refusal::report;

#[cfg(feature = "dev")]
use crate::commands::dev;
#[cfg(feature = "ui")]
use crate::commands::ui;
use crate::commands::{
    actions, check, collect, completions, dead, discard, keygen, man, migrate, prune, retry, sign,
    status, subject, suppress, trace, verify,
};
#[cfg(feature = "send")]
use crate::commands::{init, send};
#[cfg(any(feature = "bounces", feature = "serve"))]
use crate::config::SchemaSetting;

/// Collects tokens from PostgreSQL and hands them, signed, to whatever sends the mail.
#[derive(Parser)]
#[command(version)]
pub(crate) enum Command {
    /// Sign the tokens that wait and hand them to a sender, until SIGTERM
    ///
    /// Without a sender, standard output carries lines `action,email,username,token,code`, repeated
    /// for every token of a batch; log lines go to standard error. The database is that of
    /// `MAILROOM_DATABASE_URL`, the key that of `MAILROOM_SECRET_KEY` (v1, v2), of
    /// `MAILROOM_SIGNING_KEY` (v3) or of a key file. Neither URL nor key has a flag, because
    /// arguments are visible to everybody on the machine. Times are in milliseconds, or carry a
    /// unit: 500ms, 5s, 2m, 1h.
    ///
    /// Collects until SIGTERM or SIGINT, and waits for a database that is down. SIGHUP reads the
    /// key file again.
    Collect(Box<collect::CollectArguments>),
    /// Write the files that an installation begins with, and say the next commands
    ///
    /// A key, a configuration and templates of `mailroom send`, a drop-in for systemd, and
    /// `database.js` for the npm package. What is there already is left as it is.
    #[cfg(feature = "send")]
    Init(init::InitArguments),
    /// Check whether everything is there for mails to go out; send nothing
    ///
    /// The database, its schema, the rights of this role, what the key signs, the key file, the
    /// clock and a pooler; with --config templates, journal and provider of `mailroom send`, too. A
    /// line for each: ✓, or what helps.
    Check(check::CheckArguments),
    /// Show the mails of a developer's database in the browser, and send none
    ///
    /// Takes the database of `MAILROOM_DATABASE_URL`, or starts a PostgreSQL that is deleted at the
    /// end; migrates, makes a key, collects, and shows an inbox at port 8025. Templates
    /// are read again for each mail. Browser tests ask `GET /mails?to=…&action=…&wait=10s`. A
    /// database in use that is not marked as one for development is refused.
    #[cfg(feature = "dev")]
    Dev(Box<dev::DevArguments>),
    /// Bring the database to the schema that this version works with, or back
    Migrate(migrate::MigrateArguments),
    /// Show how many tokens wait, are being sent, were given up or expired
    ///
    /// Of the queue of deliveries in the database of `MAILROOM_DATABASE_URL`.
    Status(status::StatusArguments),
    /// Show the queue in a browser of this machine, and change nothing
    ///
    /// The figures of `status`, the story of a token or an address, dead letters, suppressed
    /// addresses, and the runs of collectors. Prints a link that opens it once. Reads in
    /// transactions that cannot change anything; it needs what `status`, `dead`, `trace` and
    /// `suppress list` need, as the role `mailroom_viewer` of `migrate roles` has it.
    #[cfg(feature = "ui")]
    Ui(ui::UiArguments),
    /// List what links are for: their paths, their codes, and whether they are signed
    ///
    /// In the format of the installation. It needs the right to execute `mailroom.list_actions`.
    Actions(actions::ActionsArguments),
    /// List tokens that were given up, and why
    ///
    /// Since when, for what, and after how many attempts; the newest first. It needs to read the
    /// view `mailroom.waiting`.
    Dead(dead::DeadArguments),
    /// Put tokens that were given up back into the queue
    ///
    /// Ids are those of the rows of the table `mailroom.issued_tokens`, which log lines name. A
    /// token goes out once, however many put it back at the same time.
    Retry(retry::RetryArguments),
    /// Delete tokens that were given up, so that nobody puts them back
    ///
    /// They are logged as cancelled, with the reason `discarded`.
    Discard(discard::DiscardArguments),
    /// Delete old delivery attempts, dead letters and expired tokens
    ///
    /// In short transactions, beside collectors.
    Prune(prune::PruneArguments),
    /// Show and change which addresses get no mails
    ///
    /// Mails for them are given up when a collector claims them.
    Suppress(suppress::SuppressArguments),
    /// Export or erase what is kept of a person
    ///
    /// Of a subject, by the id that the application gave to `enqueue`. It needs the right to
    /// execute `mailroom.export_subject` or `mailroom.forget`.
    Subject(subject::SubjectArguments),
    /// Tell the story of a mail, or of all mails for an address
    ///
    /// What is known of each token in order of time, also once its row is pruned: when it was
    /// enqueued, each attempt and why it failed, what the provider said when it accepted the mail,
    /// whether the address is suppressed, whether the link was used. It needs the right to execute
    /// `mailroom.trace`.
    Trace(trace::TraceArguments),
    /// Suppress addresses that bounce or complain, as providers and mail servers report
    ///
    /// It needs the right to execute `mailroom.suppress` in the database of
    /// `MAILROOM_DATABASE_URL`, and no other.
    #[cfg(feature = "bounces")]
    Bounces {
        #[command(flatten)]
        arguments: mailroom_bounces::Arguments,
        #[command(flatten)]
        schema: SchemaSetting,
    },
    /// Serve the functions of the database by HTTP, for runtimes that speak nothing else
    ///
    /// `POST /v1/redeem` and the others, for whoever has a bearer token with the right to it. The
    /// database is that of `MAILROOM_DATABASE_URL`, whose role needs the right to execute those
    /// functions, and no other. Listens on this machine; elsewhere with TLS alone, or behind it.
    /// SIGHUP reads tokens and certificate again.
    #[cfg(feature = "serve")]
    Serve {
        #[command(flatten)]
        arguments: mailroom_serve::Arguments,
        #[command(flatten)]
        schema: SchemaSetting,
    },
    /// Send the mails of tokens: a sender for `mailroom collect --sender`
    ///
    /// Reads batches from standard input, sends a mail for each token as its configuration says,
    /// and answers on standard output. Ends when the input does. It needs neither the database nor
    /// the signing keys.
    #[cfg(feature = "send")]
    Send(send::SendArguments),
    /// Give mails to a broker, for senders on other machines
    ///
    /// It is a sender for `mailroom collect --sender`. Reads batches from standard input, publishes
    /// a message for each mail, and answers when the broker has stored it. Ends when the input
    /// does. `mailroom send --from` takes the mails from the broker and sends them. Only in a
    /// program that is built with it.
    #[cfg(feature = "relay")]
    Relay(mailroom_relay::Relay),
    /// Check whether a token is genuine
    ///
    /// That is, whether one of the keys signed it for this action and code and, in v2 and v3,
    /// whether it is still valid. Only the database knows whether the link is unused, whether a v1
    /// token is still valid, and a v3 recovery's code. The keys are those of
    /// `MAILROOM_SECRET_KEY` (v1, v2) and of `MAILROOM_PUBLIC_KEY` or `MAILROOM_SIGNING_KEY` (v3),
    /// or those of a key file.
    Verify(verify::VerifyArguments),
    /// Make a token, for tests and for mails sent by hand
    ///
    /// The key is that of `MAILROOM_SECRET_KEY` (v1, v2) or of `MAILROOM_SIGNING_KEY` (v3), or the
    /// first one of a key file.
    Sign(sign::SignArguments),
    /// Make a key, or print the public key of a private one
    ///
    /// A shared key of v1 and v2 is 64 hexadecimal characters, a private key of v3 is `mrsk_…`.
    Keygen(keygen::KeygenArguments),
    /// Print what completes commands and options in a shell
    Completions(completions::CompletionsArguments),
    /// Write a manual page of every command to a folder
    Man(man::ManArguments),
}

/// The commands and their arguments, with what their help says.
pub(crate) fn definition() -> clap::Command {
    help::describe(Command::command())
}

/// Reads the arguments and the environment of this process.
/// Help that was asked for is an error, too.
pub(crate) fn parse() -> Result<Command, Error> {
    let command = definition();
    let without_unset = command.clone().mut_subcommands(|command| command.mut_args(unset_variable));
    let matches = match without_unset.try_get_matches() {
        // The help names every variable, also those that are empty.
        Err(error) if error.kind() == ErrorKind::DisplayHelp => command.try_get_matches(),
        matches => matches,
    }?;
    let mut command = Command::from_arg_matches(&matches)?;
    if let (Command::Collect(arguments), Some((_, matches))) = (&mut command, matches.subcommand())
    {
        arguments.settings.check(matches)?;
    }
    Ok(command)
}

/// An empty variable counts as unset.
fn unset_variable(arg: Arg) -> Arg {
    let is_empty = arg.get_env().and_then(env::var_os).is_some_and(|value| value.is_empty());
    if is_empty { arg.env(None::<&str>) } else { arg }
}
