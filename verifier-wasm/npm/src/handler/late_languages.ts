import type { LateLanguages } from "./texts.js";

/** The languages that are built in, but for English: few visitors read all of them. */
export const LATE_LANGUAGES: LateLanguages = {
  names: ["de", "fr", "es", "it", "pt", "nl", "pl"],
  // A bundler that splits leaves them out of what a program starts with.
  load: () => import("../entries/languages.js"),
};
