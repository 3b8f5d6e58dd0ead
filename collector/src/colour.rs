//! Colours of what people read on a terminal. `anstream` leaves them out of files and pipes, and if
//! `NO_COLOR` is set.

use clap::builder::styling::{AnsiColor, Style};

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const OK: Style = AnsiColor::Green.on_default();
