//! Mail servers as they are: odd, slow, broken or hostile.

mod campaigns;
mod dialogue;
mod hostile;
mod impatience;
mod logins;
mod refusals;
mod server;
mod tls;

use server::Server;

use crate::sending::{Configuration, Sending, Verdict};

/// A configuration for a server, without encryption.
fn configuration(server: &Server, further: &str) -> Configuration {
    let table = format!(
        "[smtp]\nserver = \"127.0.0.1\"\nport = {}\ntls = \"none\"\nconnections = 1\n{further}\n",
        server.port
    );
    Configuration::new("", &table)
}

/// A sender for a server, and the folder of its configuration.
fn start(server: &Server, further: &str) -> (Configuration, Sending) {
    let configuration = configuration(server, further);
    let sending = Sending::start(&configuration);
    (configuration, sending)
}

/// The lines of a login.
const LOGIN: &str = "username = \"us\"\npassword_file = \"key\"";

/// The verdict on one mail.
fn verdict_with(server: &Server, further: &str, email: &str) -> Verdict {
    let (_folder, mut sending) = start(server, further);
    let verdict = sending.verdict(1, email);
    sending.finish();
    verdict
}

fn verdict(server: &Server) -> Verdict {
    verdict_with(server, "", "ada@example.org")
}
