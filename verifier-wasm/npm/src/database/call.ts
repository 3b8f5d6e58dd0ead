// The functions of the database, and the SQL that calls them. All values are texts that the server
// converts: clients differ in what they make of bytes, times, JSON and large numbers, and agree on
// texts. Only what is given is named, so that the rest has the defaults of the function.

/** The types of the parameters; those of one name have the same in all functions. */
const TYPES = {
  action: "text",
  at_most: "integer",
  binding: "bytea",
  binding_proven: "boolean",
  browser_code: "text",
  code: "text",
  cooldown: "interval",
  deliver_at: "timestamptz",
  email_or_login: "text",
  idempotency_key: "text",
  language: "text",
  notice_recipient: "text",
  only_proofs: "boolean",
  payload: "jsonb",
  per: "interval",
  recipient_email: "text",
  recipient_name: "text",
  secret: "bytea",
  subject_id: "text",
  token: "bigint",
  traceparent: "text",
} as const;

export type Parameter = keyof typeof TYPES;

/** The functions that an application may call. */
export type FunctionName =
  | "browser_code"
  | "cancel"
  | "cancel_subject"
  | "enqueue"
  | "recheck"
  | "redeem"
  | "renew_link"
  | "request";

/** Bytes are in hexadecimal digits. */
export type Values = { readonly [Name in Parameter]?: string | undefined };

export interface Call {
  readonly name: FunctionName;
  readonly schema: string;
  readonly values: Values;
}

/** A statement with the values of its parameters. Its answer is one row with one text. */
export interface Statement {
  readonly text: string;
  readonly values: string[];
}

/** What redeem() answers, and in which transaction; the row type would be written otherwise. */
const REDEEMED =
  "pg_catalog.json_build_object('verdict', verdict, 'token', token::text, " +
  "'subject_id', subject_id, " +
  "'transaction', pg_catalog.pg_current_xact_id_if_assigned()::text)::text";

/** The statement that calls a function. */
export function statementOf({ name, schema, values }: Call): Statement {
  const given = givenOf(values);
  const list = given.map(([parameter], index) => {
    const text = `$${index + 1}::text`;
    const type = TYPES[parameter];
    const value = type === "bytea" ? `decode(${text}, 'hex')` : text;
    return `${parameter} => ${type === "text" || type === "bytea" ? value : `${value}::${type}`}`;
  });
  const call = `"${schema}".${name}(${list.join(", ")})`;
  const from = name === "redeem" ? `${REDEEMED} AS answer FROM ${call}` : undefined;
  // The type void has no text.
  const alone = name === "request" || name === "renew_link" ? call : `${call}::text`;
  return {
    text: `SELECT ${from ?? `${alone} AS answer`}`,
    values: given.map(([, value]) => value),
  };
}

/** Answers the transaction that it is run in; fails in one that has failed. */
export const CURRENT: Statement = {
  text: "SELECT pg_current_xact_id_if_assigned()::text AS answer",
  values: [],
};

/** Those that are given, in an order of their own. */
function givenOf(values: Values): [Parameter, string][] {
  return (Object.keys(TYPES) as Parameter[]).flatMap((name) => {
    const value = values[name];
    return value === undefined ? [] : [[name, value] as [Parameter, string]];
  });
}
