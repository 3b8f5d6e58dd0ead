//! What stands at the end of every command's help, and in its manual page: examples, which a test
//! parses, and the exit statuses.

/// The end of a command's help.
pub(super) struct Closing {
    /// The command, as it is written: `migrate up`.
    pub(super) command: &'static str,
    /// What an example does, and the example.
    pub(super) examples: &'static [(&'static str, &'static str)],
    /// A status, and when the command ends with it.
    pub(super) ends: &'static [(&'static str, &'static str)],
}

/// The variables that most commands need.
pub(super) const ENVIRONMENT: [(&str, &str); 5] = [
    ("MAILROOM_DATABASE_URL", "the database: postgresql://user@host/database, or keywords"),
    ("MAILROOM_SECRET_KEY", "the key of v1 and v2"),
    ("MAILROOM_SIGNING_KEY", "the private key of v3"),
    ("MAILROOM_KEY_FILE", "a file of keys, instead of the two variables before"),
    ("NO_COLOR", "no colours, also on a terminal"),
];

type Ends = &'static [(&'static str, &'static str)];

const USUAL: Ends =
    &[("0", "it was done"), ("1", "it failed"), ("2", "a setting or an argument is wrong")];

const NAMED_TOKENS: Ends = &[
    ("0", "it was done"),
    ("1", "it failed, or a token that was named is no dead letter"),
    ("2", "a setting or an argument is wrong"),
];

pub(super) const CLOSINGS: &[Closing] = &[
    Closing {
        command: "dev",
        examples: &[
            ("A database, an inbox at http://localhost:8025, and no mail", "mailroom dev"),
            (
                "With your templates, and links to your site",
                "mailroom dev --config send.toml --links http://localhost:3000",
            ),
        ],
        ends: USUAL,
    },
    Closing {
        command: "ui",
        examples: &[
            ("A page at http://127.0.0.1:8026, whose link is printed", "mailroom ui"),
            ("At another port, beside a second one", "mailroom ui --port 8027"),
        ],
        ends: USUAL,
    },
    Closing {
        command: "init",
        examples: &[("A key, a configuration and templates in ./mailroom", "mailroom init")],
        ends: USUAL,
    },
    Closing {
        command: "migrate up",
        examples: &[
            (
                "Make the schema beside a table of users of your own",
                "mailroom migrate up --without-accounts",
            ),
            ("Bring an installation up to date", "mailroom migrate up"),
            ("Read what that would execute", "mailroom migrate up --dry-run --show-sql"),
        ],
        ends: USUAL,
    },
    Closing {
        command: "migrate down",
        examples: &[("Take the newest migration back", "mailroom migrate down")],
        ends: &[
            ("0", "a migration is taken back"),
            ("1", "it failed"),
            ("2", "a setting or an argument is wrong"),
            ("3", "no migration is applied"),
        ],
    },
    Closing {
        command: "migrate status",
        examples: &[
            ("What is applied, and what is missing", "mailroom migrate status"),
            ("The versions, for a program", "mailroom migrate status --json"),
        ],
        ends: USUAL,
    },
    Closing {
        command: "migrate sql",
        examples: &[
            (
                "All steps, for your own migration tool",
                "mailroom migrate sql --without-accounts > mailroom.sql",
            ),
            ("One step, and its way back", "mailroom migrate sql 3 --down"),
        ],
        ends: USUAL,
    },
    Closing {
        command: "migrate bind",
        examples: &[
            ("Send from this cluster, after a restore", "mailroom migrate bind"),
            ("Tell this database from copies of it", "mailroom migrate bind --name production"),
        ],
        ends: USUAL,
    },
    Closing {
        command: "migrate roles",
        examples: &[
            ("A role for each part, with the rights for its work", "mailroom migrate roles"),
            ("What that would execute", "mailroom migrate roles --print"),
        ],
        ends: USUAL,
    },
    Closing {
        command: "keygen",
        examples: &[
            ("A shared key in a file that only you can read", "mailroom keygen --output key"),
            ("A private key", "mailroom keygen --token-format v3 --output key"),
            (
                "Its public key, for what verifies the links",
                "mailroom keygen --public --key-file key",
            ),
        ],
        ends: USUAL,
    },
    Closing {
        command: "check",
        examples: &[
            ("The database and the key", "mailroom check --key-file key"),
            (
                "Also the mail server and the templates",
                "mailroom check --key-file key --config send.toml",
            ),
        ],
        ends: &[
            ("0", "all is well"),
            ("1", "a warning"),
            ("2", "no mail can go out"),
            ("3", "it cannot look, or is called in the wrong way"),
        ],
    },
    Closing {
        command: "collect",
        examples: &[
            (
                "Send the mails by `mailroom send`, until SIGTERM",
                "mailroom collect --sender 'mailroom send --config /etc/mailroom/send.toml'",
            ),
            (
                "At most 500 mails an hour",
                "mailroom collect --rate 500/h --sender 'mailroom send --config send.toml'",
            ),
            ("One batch, as CSV, on standard output", "mailroom collect | head -n 1"),
            (
                "Send what is due and end, for cron",
                "mailroom collect --once --sender 'mailroom send --config send.toml'",
            ),
        ],
        ends: &[
            ("0", "it ended in order, by SIGTERM or SIGINT, or --once has sent what was due"),
            ("1", "it failed, the reader has closed the pipe, or --once leaves mails"),
            ("2", "a setting or an argument is wrong"),
        ],
    },
    Closing {
        command: "send",
        examples: &[
            ("Connect and log in, and send nothing", "mailroom send --config send.toml --check"),
            (
                "Look at a mail of every template",
                "mailroom send --config send.toml --preview preview",
            ),
        ],
        ends: USUAL,
    },
    Closing {
        command: "bounces",
        examples: &[
            (
                "Take the reports of a provider, behind a proxy that adds TLS",
                "mailroom bounces --config bounces.toml --listen 127.0.0.1:8080",
            ),
            (
                "Read one notification of a mail server",
                "mailroom bounces --config bounces.toml --mail",
            ),
        ],
        ends: &[
            ("0", "it ended in order, or the mail is done with"),
            ("1", "it failed"),
            ("2", "a setting or an argument is wrong"),
            ("65", "the mail is not proven or damaged"),
            ("75", "the mail is to come again"),
        ],
    },
    Closing {
        command: "serve",
        examples: &[
            ("For programs of this machine", "mailroom serve --tokens serve.toml"),
            (
                "For others, with TLS",
                "mailroom serve --tokens serve.toml --listen 0.0.0.0:443 \
                 --tls-certificate chain.pem --tls-key key.pem",
            ),
        ],
        ends: &[
            ("0", "it ended in order, by SIGTERM or SIGINT"),
            ("2", "a setting, an argument or a file cannot be used, or nothing can listen there"),
        ],
    },
    Closing {
        command: "serve token",
        examples: &[(
            "For an edge that uses links, and sends new ones",
            "mailroom serve token --name edge --rights redeem,renew_link 2>> serve.toml",
        )],
        ends: USUAL,
    },
    Closing {
        command: "status",
        examples: &[
            ("What waits, and what is an alarm", "mailroom status"),
            ("The alarms, for a program", "mailroom status --json | jq .alarms"),
            ("For Nagios and Icinga", "mailroom status --nagios --max-dead 10"),
            ("Each of several databases", "mailroom status --all /etc/mailroom/databases"),
        ],
        ends: &[
            ("0", "nothing is an alarm"),
            ("1", "a warning"),
            ("2", "something is critical"),
            ("3", "it cannot look, or is called in the wrong way"),
        ],
    },
    Closing {
        command: "dead",
        examples: &[
            ("The newest ten", "mailroom dead --limit 10"),
            ("Their reasons, for a program", "mailroom dead --json | jq -r .reason"),
        ],
        ends: USUAL,
    },
    Closing {
        command: "trace",
        examples: &[
            ("The story of the token 4711", "mailroom trace 4711"),
            ("All mails for an address", "mailroom trace ada@example.org"),
        ],
        ends: &[
            ("0", "something is known of it"),
            ("1", "nothing is known of it, or it failed"),
            ("2", "a setting or an argument is wrong"),
        ],
    },
    Closing {
        command: "actions",
        examples: &[
            ("Every action of the database", "mailroom actions"),
            ("The paths of their links", "mailroom actions --json | jq -r .path"),
        ],
        ends: USUAL,
    },
    Closing {
        command: "retry",
        examples: &[
            ("Put two tokens back", "mailroom retry 4711 4712"),
            ("Put all back that were surely not delivered", "mailroom retry --all-dead"),
        ],
        ends: NAMED_TOKENS,
    },
    Closing {
        command: "discard",
        examples: &[
            ("Give one up for good", "mailroom discard 4711"),
            ("Give up what is older than a week", "mailroom discard --all-dead --older-than 7d"),
        ],
        ends: NAMED_TOKENS,
    },
    Closing {
        command: "suppress list",
        examples: &[("Who gets no mails, and why", "mailroom suppress list")],
        ends: USUAL,
    },
    Closing {
        command: "suppress add",
        examples: &[("Send no mails to an address", "mailroom suppress add ada@example.org")],
        ends: USUAL,
    },
    Closing {
        command: "suppress remove",
        examples: &[("Send mails to it again", "mailroom suppress remove ada@example.org")],
        ends: USUAL,
    },
    Closing {
        command: "prune",
        examples: &[("Keep a month", "mailroom prune --older-than 30d")],
        ends: USUAL,
    },
    Closing {
        command: "subject export",
        examples: &[("All that is kept of a subject", "mailroom subject export 42 > subject.json")],
        ends: USUAL,
    },
    Closing {
        command: "subject forget",
        examples: &[
            ("Erase it", "mailroom subject forget 42"),
            (
                "Also mails to an address without a subject",
                "mailroom subject forget 42 --address ada@example.org",
            ),
        ],
        ends: USUAL,
    },
    Closing {
        command: "sign",
        examples: &[
            ("A link to activate", "mailroom sign --token-format v2 --action activate"),
            (
                "A link to recover, with its code",
                "mailroom sign --token-format v2 --action recover --code 01234",
            ),
        ],
        ends: USUAL,
    },
    Closing {
        command: "verify",
        examples: &[
            (
                "Judge the tokens of standard input, one a line",
                "mailroom verify --action activate - | sort",
            ),
            (
                "Judge one token, and its code",
                "mailroom verify --action recover --code 01234 TOKEN",
            ),
        ],
        ends: &[
            ("0", "every token is genuine"),
            ("1", "one is not, or it failed"),
            ("2", "a setting or an argument is wrong"),
        ],
    },
    Closing {
        command: "relay",
        examples: &[
            (
                "Give mails to NATS, as the --sender of mailroom collect",
                "mailroom relay --to tls://nats.example.org:4222",
            ),
            ("To RabbitMQ", "mailroom relay --to amqps://rabbit.example.org/mails"),
        ],
        ends: USUAL,
    },
    Closing {
        command: "completions",
        examples: &[
            (
                "For bash",
                "mailroom completions bash > ~/.local/share/bash-completion/completions/mailroom",
            ),
            ("For fish", "mailroom completions fish > ~/.config/fish/completions/mailroom.fish"),
        ],
        ends: USUAL,
    },
    Closing {
        command: "man",
        examples: &[("A page of every command", "mailroom man /usr/local/share/man/man1")],
        ends: USUAL,
    },
];
