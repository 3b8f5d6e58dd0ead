//! Everything that needs no database: the commands, the formats,
//! what is delivered beside the program.

mod bare_metal;
mod book;
mod browsers;
mod cli_reference;
mod commands;
mod contributing;
mod dependencies;
mod formats;
mod issued_columns;
mod languages;
mod limits;
mod module_circles;
mod named_sections;
mod page_commands;
mod python_verifier;
mod repository;
mod sender_answers;
mod sending;
mod service;
mod sql_documents;
mod sqlstates;
mod status_columns;
mod token_lengths;
mod topics;
mod verdicts_and_errors;
mod width;
mod workflows;
