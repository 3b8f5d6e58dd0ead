//! The account of the operating system that a server runs under.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// PostgreSQL refuses to run as root, so root starts it as one of these, the first that exists.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// A user and group that root hands a server over to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The number of the user, which is not root's.
    pub user: u32,
    /// The number of the user's group.
    pub group: u32,
}

impl Account {
    /// The account that root starts a server as; `None` if this machine has neither a user
    /// `postgres` nor `nobody`.
    pub fn unprivileged() -> io::Result<Option<Self>> {
        let accounts = fs::read_to_string("/etc/passwd")?;
        Ok(UNPRIVILEGED.iter().find_map(|name| find(&accounts, name)))
    }

    /// Gives a file or folder to this account.
    pub fn own(self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.user), Some(self.group))
    }

    /// Has a command run under this account.
    pub fn run(self, command: &mut Command) -> &mut Command {
        command.uid(self.user).gid(self.group)
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

    const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/bash\n\
        postgres-old:x:7:7::/:/bin/sh\n\
        postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash\n\
        evil:x:0:0::/:/bin/sh\n";

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let account = find(ACCOUNTS, "postgres").unwrap();
        assert_eq!((account.user, account.group), (101, 104));
        assert!(find(ACCOUNTS, "nobody").is_none());
    }

    #[test]
    fn an_account_with_the_rights_of_root_is_not_used() {
        assert!(find(ACCOUNTS, "evil").is_none());
    }
}
