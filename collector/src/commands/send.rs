//! `mailroom send`: the sender that comes with the program.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{CommandError, Outcome, print};

/// Arguments of `mailroom send`.
#[derive(clap::Args)]
pub(crate) struct SendArguments {
    /// The configuration, a file in TOML
    #[arg(long, value_name = "FILE", required_unless_present = "init")]
    config: Option<PathBuf>,

    /// Send nothing: write a mail of every template, connect and authenticate, and say what is wrong
    #[arg(long, requires = "config")]
    check: bool,

    /// Send nothing: write the mail of every template to this folder, as .eml, .html and .txt, and index.html to look at them
    #[arg(long, value_name = "FOLDER", requires = "config", conflicts_with = "check")]
    preview: Option<PathBuf>,

    /// Write the mails of all tokens to this folder instead of sending them, and answer that they were sent
    #[arg(long, value_name = "FOLDER", requires = "config", conflicts_with_all = ["check", "preview"])]
    dry_run: Option<PathBuf>,

    /// Write the shipped templates to this folder, which must be empty or new
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["config", "check", "preview", "dry_run"])]
    init: Option<PathBuf>,
}

/// Sends until standard input ends, or does what the arguments ask for instead.
pub(crate) fn run(arguments: &SendArguments) -> Outcome {
    let SendArguments { config, check, preview, dry_run, init } = arguments;
    if let Some(folder) = init {
        mailroom_sender::write_shipped(folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = config.as_deref().ok_or_else(|| CommandError::Usage("--config is missing".to_owned()))?;
    if *check {
        for line in mailroom_sender::check(config)? {
            print(line)?;
        }
    } else if let Some(folder) = preview {
        let count = mailroom_sender::preview(config, folder)?;
        print(format_args!("{count} mails to look at: {}", folder.join("index.html").display()))?;
    } else {
        mailroom_sender::send(config, dry_run.as_deref())?;
    }
    Ok(ExitCode::SUCCESS)
}

impl From<mailroom_sender::Error> for CommandError {
    fn from(error: mailroom_sender::Error) -> Self {
        let sentence = error.to_string();
        if error.is_of_configuration() { Self::Usage(sentence) } else { Self::Failure(sentence) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mailroom_sender::protocol::{Answer, parse_line};
    use mailroom_verifier_core::Signer;

    use crate::config::LineFormat;
    use crate::line::Line;
    use crate::line::tests::{recovery, token};
    use crate::queue::{Batch, BatchId};
    use crate::sink::{SentTokens, parse_answer};

    #[test]
    fn the_sender_reads_what_the_collector_writes_and_the_collector_what_the_sender_answers() {
        let id = BatchId::from(0xabc);
        let login = "o'neill; \u{fc}\u{1f600}\r\n\u{2028}";
        let tokens = vec![token(7, login.as_bytes()), recovery(i64::MAX)];
        let signer = Signer::V1((&[7; 32]).into());
        let line = Line::of(&Batch { id, tokens }, &signer, LineFormat::Ndjson).bytes;
        let batch = parse_line(line.strip_suffix(b"\n").unwrap()).unwrap();
        let read: Vec<_> = batch
            .items
            .iter()
            .map(|item| (item.id, item.action.as_str(), item.path.as_str(), item.code.as_str()))
            .collect();
        assert_eq!(read, [(7, "activate", "/activate", ""), (i64::MAX, "recover", "/recover", "01234")]);
        assert_eq!((batch.items[0].login.as_str(), batch.items[1].email.as_str()), (login, "a@b.test"));

        let mut answer = Answer::to(&batch.batch);
        answer.sent(7);
        answer.retry(i64::MAX, Some(Duration::from_secs(60)), "451 greylisted");
        answer.dead(8, "550 never");
        answer.unavailable(None, "421 closed");
        let line = answer.to_line();
        let answer = parse_answer(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!((answer.batch, answer.ok), (id, SentTokens::Ids(vec![7])));
        assert_eq!((answer.retry[0].id, answer.retry[0].after), (i64::MAX, Some(Duration::from_secs(60))));
        assert_eq!((answer.dead[0].id, answer.dead[0].reason.as_str()), (8, "550 never"));
        assert_eq!(answer.unavailable.unwrap().reason, "421 closed");
    }
}
