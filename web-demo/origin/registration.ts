// What may be registered. Whatever the database and a mail can bear is taken as it is; only what could be read as
// something else, line breaks and other control characters, is not.

export interface Registration {
  readonly email: string;
  readonly login: string;
}

/** Which field is wrong, and what would be right. */
export interface Complaint {
  readonly field: "email" | "login";
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
  const read = { email: readField(email, "email"), login: readField(login, "login") };
  if (typeof read.email === "object") return read.email;
  if (typeof read.login === "object") return read.login;
  if (!/^[^@\s]+@[^@\s]+$/.test(read.email.replace(/^".*"(?=@)/, "quoted"))) {
    return { field: "email", message: "An email address has a name, an @ and a domain." };
  }
  return { email: read.email, login: read.login };
}

function readField(value: unknown, field: "email" | "login"): string | Complaint {
  const name = field === "email" ? "An email" : "A login";
  if (typeof value !== "string") return { field, message: `${name} is a text.` };
  const text = value.trim();
  if (text === "") return { field, message: `${name} is needed.` };
  if ([...text].length > MOST) return { field, message: `${name} has at most ${MOST} characters.` };
  if (CONTROLS.test(text))
    return { field, message: `${name} has no line breaks or other control characters.` };
  if (LONE_SURROGATE.test(text)) return { field, message: `${name} is made of whole characters.` };
  return text;
}
