//! What notifications say, whoever sent them: the parsers, for tests that try them with any input.
//! The program proves them before, and is built without this module.

pub use crate::notice::{Notice, Reason, Refusal};
use mailroom_mail::ReturnPath;

use crate::provider::{postmark, resend, ses};

/// Whose notification it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    /// The body of a request of Postmark.
    Postmark,
    /// The body of a request of Resend.
    Resend,
    /// A message of Amazon SNS, with an event of Amazon SES.
    Ses,
}

/// Reads a webhook without its proof.
///
/// # Errors
/// It is not what the provider documents.
pub fn webhook(webhook: Webhook, body: &[u8]) -> Result<Vec<Notice>, Refusal> {
    match webhook {
        Webhook::Postmark => postmark::notices(body),
        Webhook::Resend => resend::notices(body),
        Webhook::Ses => ses::notices(body),
    }
}

/// Reads a delivery status notification. Its return address is its proof.
///
/// # Errors
/// It is no such notification, or it did not come to the return address of mails to the recipients
/// that it names.
pub fn mail(mail: &[u8], return_path: &ReturnPath) -> Result<Vec<Notice>, Refusal> {
    crate::mail::read(mail, return_path)
}
