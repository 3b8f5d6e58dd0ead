//! `mailroom serve token`: makes a bearer token.

use std::io::{self, Write as _};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::Error;
use crate::right::Right;
use crate::tokens::PREFIX;

/// What is written beside the bearer token.
#[derive(Debug, clap::Args)]
pub(crate) struct NewToken {
    /// What the log calls it
    #[arg(long, value_name = "NAME", default_value = "edge")]
    name: String,

    /// The functions that it may call, and `wake`, separated by commas
    #[arg(long, value_name = "RIGHTS", value_delimiter = ',', default_value = "redeem")]
    rights: Vec<Right>,
}

impl NewToken {
    /// Prints it. It is kept nowhere.
    pub(crate) fn make(&self) -> Result<(), Error> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(bytes.as_mut())
            .map_err(|error| Error(format!("the system gives no random bytes: {error}")))?;
        // Sized beforehand: growing would leave copies in freed memory.
        let mut line = Zeroizing::new(String::with_capacity(64));
        line.push_str(PREFIX);
        line.push_str(&Zeroizing::new(Base64UrlUnpadded::encode_string(bytes.as_ref())));
        let hash = base16ct::lower::encode_string(&Sha256::digest(line.as_bytes()));
        line.push('\n');
        io::stdout()
            .write_all(line.as_bytes())
            .map_err(|error| Error(format!("standard output cannot be written: {error}")))?;
        let rights: Vec<_> =
            self.rights.iter().map(|right| format!("{:?}", right.name())).collect();
        let rate = if self.rights.iter().any(|right| right.has_rate()) {
            "rate = \"60/min\"\n"
        } else {
            ""
        };
        let table = format!(
            "[[token]]\nname = {:?}\nsha256 = \"{hash}\"\nrights = [{}]\n{rate}",
            self.name,
            rights.join(", ")
        );
        io::stderr().write_all(table.as_bytes()).ok();
        Ok(())
    }
}
