//! The library behind the program `mailroom`.

pub mod postgres;
