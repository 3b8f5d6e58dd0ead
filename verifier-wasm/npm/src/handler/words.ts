import type { Judgement } from "./judgement.js";
import type { Outcome } from "./outcomes.js";
import type { ReadPassword } from "./password.js";
import { type ReadSite, waysOf } from "./site.js";
import type { Message, Texts } from "./texts.js";

type Words = Pick<
  Judgement,
  "title" | "text" | "button" | "codeLabel" | "browserCodeLabel" | "password" | "ways" | "renew"
>;

/** What a page says. */
export function words(
  texts: Texts,
  outcome: Outcome,
  action = "other",
  password?: ReadPassword,
  site?: ReadSite,
): Words {
  const { codeDigits = 0, browserCodeDigits = 0 } = outcome.link ?? {};
  const { button, ...form } = texts.actions[action] ?? texts.actions.other;
  const { title, text } = messageOf(texts, outcome, form);
  const { minLength: min = 0, maxLength: max = 0 } = password ?? {};
  const filled = (text: string, digits: number) =>
    text.replace(/\{(digits|min|max)\}/g, (_, name: "min") => String({ digits, min, max }[name]));
  const digits = browserCodeDigits || codeDigits;
  const { label, hint, show } = texts.password;
  return {
    title: filled(title, digits),
    // What the application says is shown as it is.
    text: outcome.problem === "again" ? text : filled(text, digits),
    button,
    renew: outcome.renews ? { token: outcome.renews, button: texts.renewed.button } : undefined,
    ways: waysOf(site, outcome.page, action, texts),
    codeLabel: filled(texts.code, codeDigits),
    browserCodeLabel: filled(texts.browserCode, browserCodeDigits),
    password:
      outcome.page === "form" && password?.actions.includes(action)
        ? { label, hint: filled(hint, 0), show, minLength: min, maxLength: max }
        : undefined,
  };
}

function messageOf(
  texts: Texts,
  { page, problem, link, elsewhere, message = "" }: Outcome,
  form: Message & { readonly done: string },
): Message {
  const hasBoth = link !== undefined && link.codeDigits > 0 && link.browserCodeDigits > 0;
  if (elsewhere) return { title: texts.locked.title, text: texts.lockedElsewhere };
  if (problem === "again") return { title: form.title, text: message };
  if (hasBoth && problem === "wrongCode") return texts.wrongCodes;
  if (hasBoth && problem === "missingCode") return texts.missingCodes;
  // What was said of a link that works is not true of this one.
  if (page === "renewed" && problem) return { title: texts.away.title, text: texts.expired.text };
  if (problem !== undefined) return texts[problem];
  if (hasBoth) return { title: form.title, text: texts.elsewhereWithCode };
  if (link?.browser === "other") return { title: form.title, text: texts.elsewhere };
  if (page === "form" || page === "moved" || page === "response") return form;
  if (page === "done") return { title: form.done, text: texts.close };
  return texts[page];
}
