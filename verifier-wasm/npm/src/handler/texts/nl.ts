import type { Texts } from "../texts.js";

export const nl: Texts = {
  actions: {
    activate: {
      title: "Activeer uw account",
      text:
        "Druk op de knop om uw account te activeren. " +
        "Het openen van deze pagina heeft niets veranderd.",
      button: "Mijn account activeren",
      done: "Uw account is actief",
    },
    recover: {
      title: "Herstel uw account",
      text: "Voer de {digits} cijfers van de code in. U vindt de code in de mail met deze link.",
      button: "Mijn account herstellen",
      done: "Uw account is hersteld",
    },
    sign_in: {
      title: "Inloggen",
      text: "Druk op de knop om in te loggen. Het openen van deze pagina heeft niets veranderd.",
      button: "Inloggen",
      done: "U bent ingelogd",
    },
    invite: {
      title: "Neem de uitnodiging aan",
      text:
        "Druk op de knop om de uitnodiging aan te nemen. " +
        "Het openen van deze pagina heeft niets veranderd.",
      button: "Uitnodiging aannemen",
      done: "De uitnodiging is aangenomen",
    },
    change_email: {
      title: "Bevestig uw nieuwe e-mailadres",
      text:
        "Druk op de knop om dit adres voor uw account te gebruiken. " +
        "Het openen van deze pagina heeft niets veranderd.",
      button: "Adres bevestigen",
      done: "Uw account heeft het nieuwe adres",
    },
    other: {
      title: "Bevestigen",
      text: "Druk op de knop om te bevestigen. Het openen van deze pagina heeft niets veranderd.",
      button: "Bevestigen",
      done: "Bevestigd",
    },
  },
  code: "Code ({digits} cijfers)",
  password: {
    label: "Nieuw wachtwoord",
    hint: "Minstens {min} tekens. Een paar woorden achter elkaar zijn een goede keuze.",
    show: "Wachtwoord tonen",
    title: "Kies een ander wachtwoord",
    text: "Het wachtwoord moet uit {min} tot {max} tekens bestaan.",
  },
  browserCode: "Cijfers die de andere browser toont ({digits})",
  elsewhere:
    "U hebt deze link in een andere browser aangevraagd. " +
    "Voer de {digits} cijfers in die u daar ziet.",
  elsewhereWithCode:
    "U hebt deze link in een andere browser aangevraagd. " +
    "Voer de code in en de {digits} cijfers die u daar ziet.",
  close: "U kunt deze pagina sluiten. De link werkt niet meer.",
  newLink: "Nieuwe link aanvragen",
  renewed: {
    button: "Nieuwe link sturen",
    title: "Bekijk uw mail",
    text: "Als er een nieuwe link kan worden gestuurd, is die onderweg.",
  },
  signIn: "Inloggen",
  onward: { title: "Doorgaan", text: "U wordt doorgestuurd. Gebeurt er niets, volg dan de link." },
  invalid: {
    title: "Deze link is ongeldig",
    text:
      "Misschien ontbreekt er een deel. Open de link uit de nieuwste mail, of kopieer hem " +
      "in zijn geheel naar de adresbalk, van https:// tot het laatste teken, " +
      "ook wat op een tweede regel staat. Helpt dat niet, vraag dan een nieuwe link aan.",
  },
  expired: { title: "Deze link is verlopen", text: "Vraag een nieuwe link aan." },
  used: {
    title: "Deze link is al gebruikt",
    text:
      "Een link werkt één keer. Was u het zelf, dan hoeft u niets meer te doen. " +
      "Zo niet, vraag dan een nieuwe link aan.",
  },
  locked: {
    title: "Er zijn te veel codes geprobeerd",
    text: "Ook de juiste code opent deze link niet meer. Vraag een nieuwe link aan.",
  },
  lockedElsewhere: "Open de link in de browser waarin u hem hebt aangevraagd. Daar werkt hij nog.",
  ineligible: {
    title: "Deze link werkt nu niet voor het account",
    text: "Misschien is het account al actief of geblokkeerd. De link blijft zoals hij is.",
  },
  error: {
    title: "Open de link opnieuw",
    text:
      "Deze pagina weet niet welke link u hebt geopend. Open de link uit de mail en druk op de " +
      "knop. Hebt u dat al eerder gedaan, dan zegt de pagina of het is gelukt.",
  },
  failure: {
    title: "Deze site heeft een probleem",
    text: "Opnieuw proberen helpt nog niet. Meld het aan wie deze site beheert.",
  },
  blocked: {
    title: "Open de link opnieuw",
    text:
      "Open de link nog eens uit de mail. Ziet u deze pagina weer, " +
      "sta dan cookies voor deze site toe.",
  },
  scripts: {
    title: "Sta scripts toe voor deze pagina",
    text:
      "Zonder scripts kan deze link niet worden gelezen. " +
      "Sta JavaScript voor deze site toe en open dan de link uit de mail opnieuw.",
  },
  wrongCode: {
    title: "Dat is niet de code",
    text: "Controleer de {digits} cijfers en voer ze opnieuw in.",
  },
  missingCode: {
    title: "Voer de hele code in",
    text: "Voer alle {digits} cijfers van de code in.",
  },
  wrongCodes: {
    title: "Dat zijn niet de juiste cijfers",
    text: "Controleer de code en de cijfers van de andere browser en voer beide opnieuw in.",
  },
  missingCodes: {
    title: "Voer alle cijfers in",
    text: "Voer de hele code in en alle cijfers die de andere browser toont.",
  },
  away: {
    title: "Probeer het zo meteen opnieuw",
    text: "We kunnen nu niet antwoorden. Er is niets gewijzigd en uw link werkt nog.",
  },
  unknown: {
    title: "Probeer het zo meteen opnieuw",
    text:
      "We weten niet of het is gelukt. " +
      "Zegt de pagina daarna dat de link al gebruikt is, dan is het gelukt.",
  },
};
