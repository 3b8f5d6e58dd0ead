//! The functions: their paths, what each is given, the statement that calls it, and its answer.

use mailroom_http::hyper::StatusCode;
use mailroom_traces::Traceparent;
use serde_json::{Value, json};
use tokio_postgres::{Error, Row};

use crate::members::Members;
use crate::problem::Problem;

/// A function of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Enqueue,
    Request,
    Redeem,
    BrowserCode,
    Cancel,
    CancelSubject,
    Recheck,
    RenewLink,
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: Function,
    /// What the bearer token may be limited to.
    pub(crate) action: Option<String>,
    /// Those of the statement, all texts.
    pub(crate) values: Vec<Option<String>>,
}

impl Function {
    pub(crate) const ALL: [Self; 8] = [
        Self::Enqueue,
        Self::Request,
        Self::Redeem,
        Self::BrowserCode,
        Self::Cancel,
        Self::CancelSubject,
        Self::Recheck,
        Self::RenewLink,
    ];

    /// As the database, and the file of bearer tokens, calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Request => "request",
            Self::Redeem => "redeem",
            Self::BrowserCode => "browser_code",
            Self::Cancel => "cancel",
            Self::CancelSubject => "cancel_subject",
            Self::Recheck => "recheck",
            Self::RenewLink => "renew_link",
        }
    }

    /// Whether mails come of it, which a rate bounds.
    pub(crate) fn sends(self) -> bool {
        matches!(self, Self::Enqueue | Self::Request | Self::RenewLink)
    }

    /// Whether there can be something to send after it: a notice of what a link was used for, or
    /// what has waited for its subject, too.
    pub(crate) fn queues(self) -> bool {
        self.sends() || matches!(self, Self::Redeem | Self::Recheck)
    }

    /// Reads what it is given. The trace of the request, if it has one, is that of the mails that
    /// come of it, unless they are given another one.
    pub(crate) fn call(
        self,
        mut given: Members<'_>,
        trace: Option<Traceparent>,
    ) -> Result<Call, Problem> {
        let mut action = None;
        let mut demand_action = |given: &mut Members<'_>| {
            let text = given.demand_text("action")?;
            action = Some(text.clone());
            Ok::<_, Problem>(Some(text))
        };
        let trace_of = |given: &mut Members<'_>| {
            given.traceparent("traceparent").or(trace).map(|trace| trace.to_string())
        };
        let values = match self {
            Self::Enqueue => vec![
                demand_action(&mut given)?,
                Some(given.demand_text("recipient_email")?),
                given.text("recipient_name")?,
                given.text("subject_id")?,
                given.json("payload")?,
                given.text("language")?,
                given.time("deliver_at")?,
                given.text("idempotency_key")?,
                given.bytes("binding", 16)?,
                given.text("notice_recipient")?,
                trace_of(&mut given),
            ],
            Self::Request => vec![
                Some(given.demand_text("email_or_login")?),
                demand_action(&mut given)?,
                given.interval("cooldown")?,
                given.count("at_most")?,
                given.interval("per")?,
                given.bytes("binding", 16)?,
                trace_of(&mut given),
            ],
            Self::Redeem => vec![
                Some(given.demand_bytes("secret", 32)?),
                demand_action(&mut given)?,
                given.text("code")?,
                given.flag("binding_proven")?,
                given.text("browser_code")?,
                trace.map(|trace| trace.to_string()),
            ],
            Self::BrowserCode => vec![Some(given.demand_bytes("binding", 16)?)],
            Self::Cancel => vec![Some(given.demand_id("token")?)],
            Self::CancelSubject => {
                vec![Some(given.demand_text("subject_id")?), given.flag("only_proofs")?]
            }
            Self::Recheck => vec![Some(given.demand_text("subject_id")?)],
            Self::RenewLink => {
                vec![
                    Some(given.demand_bytes("secret", 32)?),
                    demand_action(&mut given)?,
                    trace.map(|trace| trace.to_string()),
                ]
            }
        };
        given.end()?;
        Ok(Call { function: self, action, values })
    }

    /// What calls it. Null is each parameter's default, or stands for it here. Arguments are
    /// evaluated before the function runs, so that it finds the setting of its trace.
    pub(crate) fn statement(self) -> &'static str {
        match self {
            Self::Enqueue => {
                "SELECT mailroom.enqueue(action => $1, recipient_email => $2, \
                 recipient_name => $3, subject_id => $4, payload => $5::jsonb, language => $6, \
                 deliver_at => $7::timestamptz, idempotency_key => $8, \
                 binding => decode($9, 'hex'), notice_recipient => $10, traceparent => $11)::text"
            }
            Self::Request => {
                "SELECT mailroom.request(email_or_login => $1, action => $2, \
                 cooldown => $3::interval, at_most => coalesce($4::integer, 5), \
                 per => coalesce($5::interval, '1 hour'), binding => decode($6, 'hex'), \
                 traceparent => $7)"
            }
            Self::Redeem => {
                "SELECT verdict::text, token::text, subject_id FROM mailroom.redeem(\
                 secret => decode($1, 'hex'), \
                 action => CASE WHEN set_config('mailroom.traceparent', coalesce($6, ''), true) \
                 IS NOT NULL THEN $2 END, code => $3, \
                 binding_proven => coalesce($4::boolean, false), browser_code => $5)"
            }
            Self::BrowserCode => "SELECT mailroom.browser_code(binding => decode($1, 'hex'))",
            Self::Cancel => "SELECT mailroom.cancel(token => $1::bigint)",
            Self::CancelSubject => {
                "SELECT mailroom.cancel_subject(subject_id => $1, \
                 only_proofs => coalesce($2::boolean, false))"
            }
            Self::Recheck => "SELECT mailroom.recheck(subject_id => $1)",
            Self::RenewLink => {
                "SELECT mailroom.renew_link(secret => decode($1, 'hex'), \
                 action => CASE WHEN set_config('mailroom.traceparent', coalesce($3, ''), true) \
                 IS NOT NULL THEN $2 END)"
            }
        }
    }

    /// What a row of its statement says.
    pub(crate) fn answer(self, row: &Row) -> Result<(StatusCode, Value), Error> {
        let body = match self {
            Self::Enqueue => json!({ "token": row.try_get::<_, String>(0)? }),
            // Alike in every case.
            Self::Request | Self::RenewLink => json!({}),
            Self::Redeem => {
                let verdict: String = row.try_get(0)?;
                if verdict == "ok" {
                    json!({
                        "verdict": verdict,
                        "token": row.try_get::<_, String>(1)?,
                        "subject_id": row.try_get::<_, Option<String>>(2)?,
                    })
                } else {
                    json!({ "verdict": verdict })
                }
            }
            Self::BrowserCode => json!({ "browser_code": row.try_get::<_, String>(0)? }),
            Self::Cancel => json!({ "cancelled": row.try_get::<_, bool>(0)? }),
            Self::CancelSubject => json!({ "cancelled": row.try_get::<_, i32>(0)? }),
            Self::Recheck => json!({ "rechecked": row.try_get::<_, i32>(0)? }),
        };
        // The mail is sent later, or was never to be.
        let status = if self.sends() { StatusCode::ACCEPTED } else { StatusCode::OK };
        Ok((status, body))
    }
}
