import type { Texts } from "../texts.js";

export const nl: Texts = {
  actions: {
    activate: {
      title: "Uw account activeren",
      text: "Druk op de knop om uw account te activeren. Er is nog niets gebeurd.",
      button: "Mijn account activeren",
      done: "Uw account is actief",
    },
    recover: {
      title: "Uw account herstellen",
      text: "Typ de {digits} cijfers van uw code.",
      button: "Mijn account herstellen",
      done: "Uw account is hersteld",
    },
    other: {
      title: "Bevestigen",
      text: "Druk op de knop om te bevestigen. Er is nog niets gebeurd.",
      button: "Bevestigen",
      done: "Bevestigd",
    },
  },
  code: "Code ({digits} cijfers)",
  elsewhere: "U hebt deze link in een andere browser aangevraagd. Typ de {digits} cijfers die u daar ziet.",
  close: "U kunt deze pagina sluiten. De link werkt niet meer.",
  invalid: {
    title: "Deze link is ongeldig",
    text: "Misschien ontbreekt er een deel. Open de link uit de nieuwste mail of vraag een nieuwe link aan.",
  },
  expired: { title: "Deze link is verlopen", text: "Vraag een nieuwe link aan." },
  used: {
    title: "Deze link is al gebruikt",
    text: "Een link werkt één keer. Was u het zelf, dan hoeft u niets meer te doen. Zo niet, vraag een nieuwe link aan.",
  },
  locked: {
    title: "Er zijn te veel codes geprobeerd",
    text: "Ook de juiste code opent deze link niet meer. Vraag een nieuwe link aan.",
  },
  lockedElsewhere: "Open de link in de browser waarin u hem hebt aangevraagd. Daar werkt hij nog.",
  ineligible: {
    title: "Het account kan deze link nu niet gebruiken",
    text: "Misschien is het al actief of geblokkeerd. De link blijft zoals hij is.",
  },
  error: {
    title: "Open de link opnieuw",
    text: "Dit verzoek is niet begrepen en er is niets gedaan. Open de link uit de mail en druk op de knop.",
  },
  failure: {
    title: "Deze site heeft een probleem",
    text: "Uw link is niet gebruikt, en opnieuw proberen helpt nog niet. Meld het aan de beheerders.",
  },
  blocked: {
    title: "Open de link opnieuw",
    text: "Open de link nog eens uit de mail. Ziet u deze pagina weer, sta dan cookies voor deze site toe.",
  },
  scripts: {
    title: "Sta scripts toe voor deze pagina",
    text: "Zonder scripts kan deze link niet worden gelezen. Sta JavaScript voor deze site toe en open dan de link uit de mail opnieuw.",
  },
  wrongCode: {
    title: "Dat is niet de code",
    text: "Controleer de {digits} cijfers en typ ze opnieuw.",
  },
  missingCode: { title: "De code ontbreekt", text: "Typ alle {digits} cijfers van de code." },
  away: {
    title: "Probeer het zo meteen opnieuw",
    text: "We kunnen nu niet antwoorden. Er is niets gedaan, en uw link werkt nog.",
  },
  unknown: {
    title: "Probeer het zo meteen opnieuw",
    text: "Het is niet bekend of het is gelukt. Staat er daarna dat de link gebruikt is, dan is het gelukt.",
  },
};
