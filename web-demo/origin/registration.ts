// What may be registered, or invited. Whatever the database and a mail can bear is taken as it is;
// only what could be read as something else, line breaks and other control characters, is not.

export interface Registration {
  readonly email: string;
  readonly login: string;
}

export interface Invitation {
  readonly team: string;
  readonly email: string;
}

type Field = "email" | "login" | "team";

/** Which field is wrong, and what would be right. */
export interface Complaint {
  readonly field: Field;
  readonly message: string;
}

/** As long as the columns. */
const MOST = 254;

// C0 and C1 controls, and the two separators at which many readers split lines.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/** Half of a pair is no character, and no UTF-8. */
const LONE_SURROGATE = /\p{Surrogate}/u;

export function readRegistration(email: unknown, login: unknown): Registration | Complaint {
  const read = { email: readEmail(email), login: readField(login, "login") };
  if (typeof read.email === "object") return read.email;
  if (typeof read.login === "object") return read.login;
  return { email: read.email, login: read.login };
}

export function readInvitation(team: unknown, email: unknown): Invitation | Complaint {
  const read = { team: readField(team, "team"), email: readEmail(email) };
  if (typeof read.team === "object") return read.team;
  if (typeof read.email === "object") return read.email;
  return { team: read.team, email: read.email };
}

function readEmail(value: unknown): string | Complaint {
  const email = readField(value, "email");
  if (typeof email === "object") return email;
  // As `mailroom.is_address` has it: nobody gets a mail at such an address.
  if (/[",;:<>()[\]\\]/.test(email))
    return {
      field: "email",
      message: "No mail is sent to an address with quotes, commas or brackets.",
    };
  if (/^[^@\s]+@[^@\s]+$/.test(email)) return email;
  return { field: "email", message: "An email address has a name, an @ and a domain." };
}

const NAMES: Record<Field, string> = { email: "An email", login: "A login", team: "A team" };

function readField(value: unknown, field: Field): string | Complaint {
  const name = NAMES[field];
  if (typeof value !== "string") return { field, message: `${name} is a text.` };
  const text = value.trim();
  if (text === "") return { field, message: `${name} is needed.` };
  if ([...text].length > MOST) return { field, message: `${name} has at most ${MOST} characters.` };
  if (CONTROLS.test(text))
    return { field, message: `${name} has no line breaks or other control characters.` };
  if (LONE_SURROGATE.test(text)) return { field, message: `${name} is made of whole characters.` };
  return text;
}
