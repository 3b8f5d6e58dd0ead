//! The account of the operating system that PostgreSQL runs under.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::DevError;

/// PostgreSQL refuses to run as root, so root starts it as one of these, the first that exists.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// A user and group that root hands a server over to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    user: u32,
    group: u32,
}

impl Account {
    /// The account to change to; `None` unless this process is root's.
    ///
    /// # Errors
    /// There is no such account.
    pub(super) fn to_change_to() -> Result<Option<Self>, DevError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        UNPRIVILEGED.iter().find_map(|name| find(&accounts, name)).map(Some).ok_or_else(|| {
            let fault = "PostgreSQL refuses to run as root, and there is neither a user `postgres` \
                         nor `nobody`; run `mailroom dev` as another user";
            DevError(fault.to_owned())
        })
    }

    /// Gives a file or folder to this account.
    pub(super) fn own(self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.user), Some(self.group))
    }

    /// Has a command run under this account.
    pub(super) fn run(self, command: &mut Command) {
        command.uid(self.user).gid(self.group);
    }
}

fn find(accounts: &str, name: &str) -> Option<Account> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2).map(str::parse);
    match (numbers.next()?, numbers.next()?) {
        (Ok(user), Ok(group)) if user != 0 => Some(Account { user, group }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_with_the_rights_of_root_is_not_used() {
        let accounts = "root:x:0:0::/root:/bin/sh\npostgres-old:x:7:7::/:/bin/sh\n\
                        postgres:x:101:104:,,,:/:/bin/sh\nevil:x:0:0::/:/bin/sh\n";
        assert_eq!(find(accounts, "postgres"), Some(Account { user: 101, group: 104 }));
        assert_eq!(find(accounts, "nobody"), None);
        assert_eq!(find(accounts, "evil"), None);
    }
}
