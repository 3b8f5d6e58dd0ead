// The languages of the handler's pages: which one a visitor gets, with every text and no text of
// another.

import { holds, same } from "./expect.mjs";
import { SITE, read, scene } from "./handler_scene.mjs";

/** A button in each language; other tests take the languages from here. */
export const BUTTONS = {
  en: "Activate my account",
  de: "Mein Konto aktivieren",
  fr: "Activer mon compte",
  es: "Activar mi cuenta",
  it: "Attiva il mio account",
  nl: "Mijn account activeren",
  pl: "Aktywuj moje konto",
  pt: "Ativar a minha conta",
};

export function* handlerLanguages(subject) {
  const buttonFor = async (language, more) => {
    const { make, open, activation } = scene(subject);
    const request = open(activation.token, { headers: { "Accept-Language": language } });
    const { text, headers } = await read(await make(more)(request));
    return {
      button: /<button>(.*?)<\/button>/.exec(text)?.[1],
      text,
      language: headers.get("Content-Language"),
    };
  };
  yield [
    "the pages speak each language, the one that the browser prefers",
    async () => {
      for (const [language, button] of Object.entries(BUTTONS)) {
        for (const header of [
          language,
          `${language}-XX,zz;q=0.9`,
          `xx, ${language.toUpperCase()};q=0.5, zz;q=0.1`,
        ]) {
          const found = await buttonFor(header);
          same(found.button, button, header);
          same(found.language, language, "Content-Language");
          holds(found.text.includes(`<html lang="${language}">`), "lang");
        }
      }
      for (const [header, expected] of [
        ["", "en"],
        ["de;q=0", "en"],
        ["de;q=0.3, fr;q=0.8", "fr"],
        ["de;q=2, nl", "nl"],
        ["*", "en"],
        ["__proto__,constructor", "en"],
        [`${"x-y;q=0.9,".repeat(10_000)}de`, "en"],
      ]) {
        same((await buttonFor(header)).language, expected, header.slice(0, 40));
      }
    },
  ];
  yield [
    "each language has every text, and no text of another",
    async () => {
      const seen = new Map();
      for (const language of Object.keys(BUTTONS)) {
        const { make, open, press, activation, recovery, answers } = scene(subject);
        const handle = make();
        const headers = { "Accept-Language": language };
        const path = "/recover";
        const pages = [
          open(activation.token, { headers }),
          open(recovery.token, { headers, path }),
          open("x", { headers }),
          press({ token: recovery.token, code: recovery.wrongCode }, { headers, path }),
          press({ token: recovery.token }, { headers, path }),
          new Request(`${SITE}/activate`, { headers }),
          new Request(`${SITE}/elsewhere`, { headers }),
          new Request(`${SITE}/activate?open=${"0".repeat(32)}`, { headers }),
        ];
        const verdicts = ["away", "?", "not_eligible", "too_many_attempts", "expired"];
        const judgements = [];
        for (const request of pages) judgements.push(await handle.judge(request));
        for (const verdict of verdicts) {
          answers.now = verdict;
          judgements.push(await make().judge(press({ token: activation.token }, { headers })));
        }
        answers.now = "ok";
        judgements.push(await handle.judge(press({ token: activation.token }, { headers })));
        judgements.push(await handle.judge(press({ token: activation.token }, { headers })));
        const judged = await handle.judge(
          press({ token: recovery.token, code: recovery.code }, { headers, path }),
        );
        judgements.push(judged);
        for (const { title, text, page, codeLabel } of judgements) {
          holds(
            title.length > 3 && text.length > 3 && codeLabel.length > 3,
            `${language} ${page}: ${title} ${text}`,
          );
          holds(
            !/[{}]/.test(title + text + codeLabel),
            `${language} ${page}: ${title} ${text} ${codeLabel}`,
          );
          const other = seen.get(text);
          holds(
            other === undefined || other === language,
            `${language} has a text of ${other}: ${text}`,
          );
          seen.set(text, language);
        }
      }
    },
  ];
  yield [
    "texts of one's own replace those that they name, and add languages",
    async () => {
      const texts = {
        de: { actions: { activate: { button: "Los <geht's>" } } },
        da: { actions: { activate: { button: "Aktivér" } }, close: "Farvel" },
      };
      const german = await buttonFor("de", { texts });
      same(german.button, "Los &#60;geht&#39;s&#62;", "German");
      holds(german.text.includes("Konto aktivieren"), "the other German texts");
      const danish = await buttonFor("da", { texts });
      same(`${danish.button} ${danish.language}`, "Aktivér da", "Danish");
      holds(danish.text.includes("Activate your account"), "what Danish has not");
    },
  ];
  yield [
    "a page is read from the side from which its heading is, whatever its site is called",
    async () => {
      const title = "تفعيل حسابك";
      const more = { texts: { ar: { actions: { activate: { title } } } }, site: { name: "Acme" } };
      const { text } = await buttonFor("ar", more);
      const [, body] = text.split('<body dir="auto">');
      // Browsers take the first letter that is not in `bdi`.
      const [first] = /[^<>\s]+(?=[^<>]*<)/.exec(body.replace(/<bdi>.*?<\/bdi>/, "")) ?? [];
      holds(title.startsWith(first), text);
      holds(!/(?:margin|padding|border)-left/.test(text), "what is on one side");
    },
  ];
}
