//! The server's side of SMTP (RFC 5321), for mails to everybody.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The largest mail, in bytes.
const MAX_MAIL: usize = 1_048_576;

/// The longest command, in bytes.
const MAX_COMMAND: u64 = 4_096;

/// The most people to whom one mail goes.
const MAX_RECIPIENTS: usize = 100;

/// The most connections at a time; more wait.
const MAX_CONNECTIONS: usize = 64;

/// How long a client may say nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

const GREETING: &str = "\
250-mailroom-inbox\r\n\
250-PIPELINING\r\n\
250-8BITMIME\r\n\
250-SMTPUTF8\r\n\
250 SIZE 1048576\r\n";

/// Takes mails for as long as the future lives, and gives each to `deliver`, with its recipient.
pub(crate) async fn serve<D>(listener: TcpListener, deliver: D) -> io::Result<()>
where
    D: Fn(&str, &[u8]) + Send + Sync + 'static,
{
    let (deliver, permits) = (Arc::new(deliver), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, _) = listener.accept().await?;
        let deliver = Arc::clone(&deliver);
        tokio::spawn(async move {
            let client = Client { stream: BufReader::new(stream) };
            // A client that goes away has sent no mail.
            client.talk(&*deliver).await.ok();
            drop(permit);
        });
    }
}

struct Client {
    stream: BufReader<TcpStream>,
}

/// Who sends a mail is in its headers; here it counts that somebody does.
#[derive(Default)]
struct Envelope {
    has_sender: bool,
    recipients: Vec<String>,
}

impl Client {
    async fn talk(mut self, deliver: &(impl Fn(&str, &[u8]) + Sync)) -> io::Result<()> {
        self.say("220 mailroom-inbox ESMTP\r\n").await?;
        let mut is_greeted = false;
        let mut envelope = Envelope::default();
        while let Some(command) = self.command().await? {
            let verb = command.get(..4).unwrap_or_default().to_ascii_uppercase();
            if !is_greeted && !matches!(verb.as_str(), "HELO" | "EHLO" | "QUIT") {
                // A page of the browser can post lines to any port, behind a head of HTTP.
                return self.say("421 this is a mail server\r\n").await;
            }
            let answer = match verb.as_str() {
                "HELO" | "EHLO" => {
                    is_greeted = true;
                    envelope = Envelope::default();
                    if verb == "EHLO" { GREETING } else { "250 mailroom-inbox\r\n" }
                }
                "MAIL" if path(&command, "FROM:").is_some() => {
                    envelope = Envelope { has_sender: true, recipients: Vec::new() };
                    "250 OK\r\n"
                }
                "RCPT" if envelope.recipients.len() >= MAX_RECIPIENTS => "452 too many\r\n",
                "RCPT" if envelope.has_sender => match path(&command, "TO:") {
                    Some(to) if !to.is_empty() => {
                        envelope.recipients.push(to.to_owned());
                        "250 OK\r\n"
                    }
                    _ => "501 that is no recipient\r\n",
                },
                "DATA" if envelope.recipients.is_empty() => "503 to whom?\r\n",
                "DATA" => {
                    self.say("354 end it with a dot\r\n").await?;
                    let Some(content) = self.content().await? else { return Ok(()) };
                    let recipients = std::mem::take(&mut envelope).recipients;
                    if let Content::Whole(content) = &content {
                        for to in &recipients {
                            deliver(to, content);
                        }
                        "250 OK\r\n"
                    } else {
                        "552 the mail is too large\r\n"
                    }
                }
                "RSET" => {
                    envelope = Envelope::default();
                    "250 OK\r\n"
                }
                "NOOP" => "250 OK\r\n",
                "QUIT" => return self.say("221 bye\r\n").await,
                _ => "500 that is no command here\r\n",
            };
            self.say(answer).await?;
        }
        Ok(())
    }

    async fn say(&mut self, answer: &str) -> io::Result<()> {
        self.stream.write_all(answer.as_bytes()).await
    }

    /// The next command; none where the client is away, or its command too long.
    async fn command(&mut self) -> io::Result<Option<String>> {
        let line = self.line(MAX_COMMAND).await?;
        Ok(line.strip_suffix(b"\n").map(|line| String::from_utf8_lossy(line).trim().to_owned()))
    }

    /// Bytes up to the end of a line, or `most` of them.
    async fn line(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let mut stream = (&mut self.stream).take(most);
        timeout(IDLE_TIMEOUT, stream.read_until(b'\n', &mut line)).await??;
        Ok(line)
    }

    /// A mail up to the line that ends it; none where the client went away before.
    async fn content(&mut self) -> io::Result<Option<Content>> {
        let (mut content, mut begins_line, mut is_large) = (Vec::new(), true, false);
        loop {
            let line = self.line(65_536).await?;
            if line.is_empty() {
                return Ok(None);
            }
            if begins_line && line == b".\r\n" {
                return Ok(Some(if is_large {
                    Content::TooLarge
                } else {
                    Content::Whole(content)
                }));
            }
            // Only what CR LF ends is a line: by any other end, a mail could hold a second one.
            let is_stuffed = begins_line && line.starts_with(b".");
            content.extend_from_slice(if is_stuffed { &line[1..] } else { &line });
            begins_line = content.ends_with(b"\r\n");
            if content.len() > MAX_MAIL {
                is_large = true;
                content.drain(..content.len() - 2);
            }
        }
    }
}

enum Content {
    Whole(Vec<u8>),
    TooLarge,
}

/// What stands between the angle brackets of a command; parameters may follow.
fn path<'a>(command: &'a str, name: &str) -> Option<&'a str> {
    let rest = command.get(5..)?.trim_start();
    let rest = rest.get(..name.len())?.eq_ignore_ascii_case(name).then(|| &rest[name.len()..])?;
    // The local part may have brackets itself, in quotes.
    rest.trim_start().strip_prefix('<')?.rsplit_once('>').map(|(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_with_quotes_parameters_and_in_any_case() {
        for (command, expected) in [
            ("RCPT TO:<ada@x.test>", Some("ada@x.test")),
            ("rcpt to: <\"a>b\"@x.test> NOTIFY=NEVER", Some("\"a>b\"@x.test")),
            ("RCPT TO:<>", Some("")),
            ("RCPT TO:ada@x.test", None),
            ("RCPT FROM:<ada@x.test>", None),
            ("RCPT", None),
            ("RCPT \u{fc}", None),
        ] {
            assert_eq!(path(command, "TO:"), expected, "{command}");
        }
    }
}
