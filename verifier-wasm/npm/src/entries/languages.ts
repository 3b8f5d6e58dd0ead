/**
 * The texts of the link handler's pages in the languages other than English. The handler loads this
 * file when the first visitor asks for one of them.
 *
 * @module
 */

export { de } from "../handler/texts/de.js";
export { es } from "../handler/texts/es.js";
export { fr } from "../handler/texts/fr.js";
export { it } from "../handler/texts/it.js";
export { nl } from "../handler/texts/nl.js";
export { pl } from "../handler/texts/pl.js";
export { pt } from "../handler/texts/pt.js";
export type { ActionTexts, Message, Texts } from "../handler/texts.js";
