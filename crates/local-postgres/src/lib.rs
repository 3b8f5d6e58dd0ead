//! The PostgreSQL servers that are installed on this machine, and the account that one runs under:
//! for `mailroom dev` and for the tests, which both start servers of their own.

mod account;
mod installation;

pub use account::Account;
pub use installation::Installation;
