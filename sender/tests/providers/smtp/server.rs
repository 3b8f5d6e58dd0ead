//! A mail server that says what a test wants, and notes what it hears.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What a server does in place of a usual reply.
#[derive(Clone)]
pub(crate) enum Act {
    /// It says these bytes.
    Say(Vec<u8>),
    /// It says these bytes and closes the connection.
    Close(Vec<u8>),
    /// It says nothing any more.
    Silence,
    /// It says these bytes after this time.
    Late(Duration, Vec<u8>),
    /// It says these bytes one by one, a second between two.
    Drip(Vec<u8>),
    /// It says these bytes again and again, as fast as they are taken.
    Flood(Vec<u8>),
    /// It closes the connection so that the other end gets a reset.
    Reset,
}

impl Act {
    pub(crate) fn say(text: &str) -> Self {
        Self::Say(text.as_bytes().to_vec())
    }

    /// A line after so many seconds.
    pub(crate) fn late(seconds: u64, text: &str) -> Self {
        Self::Late(Duration::from_secs(seconds), format!("{text}\r\n").into_bytes())
    }

    /// A line.
    pub(crate) fn line(text: &str) -> Self {
        Self::say(&format!("{text}\r\n"))
    }

    pub(crate) fn close(text: &str) -> Self {
        Self::Close(text.as_bytes().to_vec())
    }
}

/// What a server says at each verb; `greeting`, `354` after DATA and `end` after the content, too.
#[derive(Clone, Default)]
pub(crate) struct Script {
    acts: HashMap<&'static str, Act>,
    /// Acts where a line contains this.
    lines: Vec<(&'static str, Act)>,
    /// Acts on a connection that has had a mail.
    after_a_mail: HashMap<&'static str, Act>,
    login: Option<Login>,
    /// Whether it counts errors, as Postfix does: those after ten are answered a second late, and
    /// the connection ends after twenty. A mail that is accepted begins the count again.
    counts_errors: bool,
}

/// How AUTH is answered.
#[derive(Clone, Copy)]
pub(crate) enum Login {
    /// By LOGIN alone, with these prompts.
    Prompts(&'static str, &'static str),
    /// By PLAIN, once it was asked for with a prompt.
    PlainAfterPrompt,
    /// Prompts without end.
    Endless,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// At this verb.
    pub(crate) fn at(mut self, verb: &'static str, act: Act) -> Self {
        self.acts.insert(verb, act);
        self
    }

    /// At this verb, on a connection that has had a mail.
    pub(crate) fn after_a_mail(mut self, verb: &'static str, act: Act) -> Self {
        self.after_a_mail.insert(verb, act);
        self
    }

    /// At a line that contains this.
    pub(crate) fn where_line_has(mut self, part: &'static str, act: Act) -> Self {
        self.lines.push((part, act));
        self
    }

    pub(crate) fn counting_errors(mut self) -> Self {
        self.counts_errors = true;
        self
    }

    pub(crate) fn login(mut self, login: Login) -> Self {
        self.login = Some(login);
        self
    }
}

/// What a server has heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// Every line of a command, those of connections after each other,
    /// each with its connection's number.
    pub(crate) lines: Vec<(usize, String)>,
    /// Contents that ended.
    pub(crate) contents: Vec<String>,
    /// How often each of the connections ended, in order: `quit`, `closed`.
    pub(crate) ends: Vec<&'static str>,
    /// How many answers were late because of errors.
    pub(crate) late: usize,
}

/// The running server; its threads end with the test.
pub(crate) struct Server {
    pub(crate) port: u16,
    heard: Arc<Mutex<Heard>>,
}

impl Server {
    pub(crate) fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let noted = Arc::clone(&heard);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let (noted, script) = (Arc::clone(&noted), script.clone());
                thread::spawn(move || {
                    stream.set_nodelay(true).ok();
                    let end =
                        Session { stream, script, noted: &noted, number, mails: 0, errors: 0 }
                            .serve();
                    noted
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .ends
                        .push(end.unwrap_or("closed"));
                });
            }
        });
        Self { port, heard }
    }

    pub(crate) fn heard(&self) -> Heard {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The commands that begin with this.
    pub(crate) fn commands(&self, begin: &str) -> Vec<String> {
        let lines = self.heard().lines.into_iter().map(|(_, line)| line);
        lines.filter(|line| line.starts_with(begin)).collect()
    }
}

struct Session<'a> {
    stream: TcpStream,
    script: Script,
    noted: &'a Mutex<Heard>,
    number: usize,
    mails: usize,
    errors: u32,
}

impl Session<'_> {
    fn serve(mut self) -> Option<&'static str> {
        let mut input = BufReader::new(self.stream.try_clone().ok()?);
        self.act("greeting", "", "220 mx.x.test ESMTP")?;
        loop {
            let line = read(&mut input)?;
            self.note(|heard, number| heard.lines.push((number, line.clone())));
            let verb = line.split([' ', ':']).next()?.to_ascii_uppercase();
            match verb.as_str() {
                "AUTH" => self.authenticate(&line, &mut input)?,
                "DATA" => {
                    if !self.act("DATA", &line, "354 go on")? {
                        continue;
                    }
                    let mut content = String::new();
                    loop {
                        let line = read(&mut input)?;
                        if line == "." {
                            break;
                        }
                        content += &line;
                        content += "\n";
                        // Before the end.
                        if self.script.acts.contains_key("content") {
                            self.act("content", "", "")?;
                            self.script.acts.remove("content");
                        }
                    }
                    self.note(|heard, _| heard.contents.push(content.clone()));
                    self.errors = 0;
                    self.act("end", &content, "250 2.0.0 queued as 4711")?;
                    self.mails += 1;
                }
                "QUIT" => {
                    self.act("QUIT", &line, "221 bye")?;
                    return Some("quit");
                }
                verb => {
                    let usual = match verb {
                        "EHLO" => "250-mx.x.test\r\n250-8BITMIME\r\n250 SMTPUTF8",
                        "STARTTLS" => "454 no",
                        _ => "250 2.0.0 ok",
                    };
                    self.act(verb, &line, usual)?;
                }
            }
        }
    }

    fn note(&self, note: impl FnOnce(&mut Heard, usize)) {
        note(&mut self.noted.lock().unwrap_or_else(PoisonError::into_inner), self.number);
    }

    /// Answers at a verb. Returns whether the answer was the usual one, or asks for more.
    fn act(&mut self, verb: &str, line: &str, usual: &str) -> Option<bool> {
        let of_line = self.script.lines.iter().find(|(part, _)| line.contains(part));
        let later = self.script.after_a_mail.get(verb).filter(|_| self.mails > 0);
        let usual_act = later.or_else(|| self.script.acts.get(verb));
        let act = of_line.map(|(_, act)| act).or(usual_act).cloned();
        match act {
            None => self.say(format!("{usual}\r\n").as_bytes()),
            Some(Act::Say(bytes)) => {
                self.say(&bytes)?;
                Some(bytes.starts_with(b"3"))
            }
            Some(Act::Late(time, bytes)) => {
                thread::sleep(time);
                self.say(&bytes)
            }
            Some(Act::Close(bytes)) => {
                self.say(&bytes);
                None
            }
            Some(Act::Silence) => {
                thread::sleep(Duration::from_secs(3_600));
                None
            }
            Some(Act::Drip(bytes)) => {
                for byte in bytes {
                    self.say(&[byte])?;
                    thread::sleep(Duration::from_secs(1));
                }
                Some(true)
            }
            Some(Act::Flood(bytes)) => loop {
                self.say(&bytes)?;
            },
            Some(Act::Reset) => {
                // What was not read makes a reset of a close.
                thread::sleep(Duration::from_millis(50));
                None
            }
        }
    }

    fn authenticate(&mut self, line: &str, input: &mut impl BufRead) -> Option<()> {
        let mut prompt = |session: &mut Self, text: &str| -> Option<String> {
            session.say(format!("334 {text}\r\n").as_bytes())?;
            let line = read(input)?;
            session.note(|heard, number| heard.lines.push((number, line.clone())));
            Some(line)
        };
        match self.script.login {
            Some(Login::Prompts(name, password))
                if line.to_ascii_uppercase().starts_with("AUTH LOGIN") =>
            {
                prompt(self, name)?;
                prompt(self, password)?;
                self.say(b"235 ok\r\n")?;
            }
            Some(Login::PlainAfterPrompt) => {
                prompt(self, "")?;
                self.say(b"235\r\n")?;
            }
            Some(Login::Endless) => loop {
                prompt(self, "")?;
            },
            _ => {
                self.act("AUTH", line, "504 5.5.4 unrecognized")?;
            }
        }
        Some(())
    }

    fn say(&mut self, bytes: &[u8]) -> Option<bool> {
        if self.script.counts_errors {
            self.errors += u32::from(bytes.starts_with(b"5"));
            if self.errors > 20 {
                self.stream.write_all(b"421 4.7.0 too many errors\r\n").ok()?;
                return None;
            }
            if self.errors > 10 {
                self.note(|heard, _| heard.late += 1);
                thread::sleep(Duration::from_secs(1));
            }
        }
        self.stream.write_all(bytes).ok()?;
        Some(true)
    }
}

/// A line without its end.
fn read(input: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let count = input.by_ref().take(1 << 20).read_until(b'\n', &mut line).ok()?;
    (count > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned())
}
