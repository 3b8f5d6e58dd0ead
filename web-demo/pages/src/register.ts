// The forms of the walk-through.

import { byId, say } from "./element.ts";
import { post } from "./post.ts";

/** Somebody new, so that a look takes one press. */
export function suggest(): void {
  const names = [
    "ada",
    "grace",
    "joan",
    "barbara",
    "radia",
    "frances",
    "karen",
    "adele",
    "margaret",
    "hedy",
  ];
  const random = crypto.getRandomValues(new Uint16Array(2));
  const login = `${names[(random[0] ?? 0) % names.length]}-${((random[1] ?? 0) % 9000) + 1000}`;
  byId<HTMLInputElement>("login").value = login;
  byId<HTMLInputElement>("email").value = `${login}@example.test`;
}

export function onRegistration(registered: (email: string) => void): void {
  const form = byId<HTMLFormElement>("register");
  const note = byId("register-note");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const fields = new FormData(form);
    const [email, login] = [String(fields.get("email")), String(fields.get("login"))];
    const { ok, message, field } = await whileBusy(form, () =>
      post("/api/register", { email, login }),
    );
    note.classList.toggle("wrong", !ok);
    say(note, message);
    for (const name of ["email", "login"]) {
      const input = byId<HTMLInputElement>(name);
      input.toggleAttribute("aria-invalid", false);
      if (field === name) {
        input.setAttribute("aria-invalid", "true");
        input.focus();
      }
    }
    if (ok) {
      registered(email.trim());
      // What somebody typed while this was under way stays.
      const now = new FormData(form);
      if (now.get("email") === email && now.get("login") === login) suggest();
    }
  });
}

export function onRequest(email: () => string | null): void {
  const form = byId<HTMLFormElement>("request");
  const note = byId("request-note");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = email();
    if (name === null) {
      say(note, "Register somebody first.");
      return;
    }
    const action = (event.submitter as HTMLButtonElement | null)?.value;
    const { ok, message } = await whileBusy(form, () => post("/api/request", { name, action }));
    note.classList.toggle("wrong", !ok);
    say(
      note,
      ok
        ? `${message} At most one every five seconds, and only if the account's status allows it.`
        : message,
    );
  });
}

export function onInvitation(email: () => string | null): void {
  const form = byId<HTMLFormElement>("invite");
  const note = byId("invite-note");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const to = email();
    if (to === null) {
      say(note, "Register somebody first, whose inbox is shown.");
      return;
    }
    const team = String(new FormData(form).get("team"));
    const { ok, message } = await whileBusy(form, () => post("/api/invite", { team, email: to }));
    note.classList.toggle("wrong", !ok);
    say(note, message);
  });
}

/** Nothing is sent twice by a second press. */
async function whileBusy<Result>(
  form: HTMLFormElement,
  work: () => Promise<Result>,
): Promise<Result> {
  const buttons = form.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  try {
    return await work();
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}
