import type { Texts } from "../texts.js";

export const it: Texts = {
  actions: {
    activate: {
      title: "Attiva il tuo account",
      text:
        "Premi il pulsante per attivare il tuo account. " +
        "Aprire questa pagina non ha cambiato nulla.",
      button: "Attiva il mio account",
      done: "Il tuo account è attivo",
    },
    recover: {
      title: "Recupera il tuo account",
      text: "Scrivi le {digits} cifre del codice. Lo trovi nell’e-mail che ti ha portato qui.",
      button: "Recupera il mio account",
      done: "Il tuo account è stato recuperato",
    },
    other: {
      title: "Conferma",
      text: "Premi il pulsante per confermare. Aprire questa pagina non ha cambiato nulla.",
      button: "Conferma",
      done: "Confermato",
    },
  },
  code: "Codice ({digits} cifre)",
  password: {
    label: "Nuova password",
    hint: "Almeno {min} caratteri. Più parole di seguito sono una buona scelta.",
    show: "Mostra la password",
    title: "Scegli un’altra password",
    text: "La password deve avere da {min} a {max} caratteri.",
  },
  browserCode: "Cifre che mostra l’altro browser ({digits})",
  elsewhere: "Hai richiesto questo link in un altro browser. Scrivi le {digits} cifre che vedi lì.",
  elsewhereWithCode:
    "Hai richiesto questo link in un altro browser. " +
    "Scrivi il codice e le {digits} cifre che vedi lì.",
  close: "Puoi chiudere questa pagina. Il link non funziona più.",
  newLink: "Chiedi un nuovo link",
  renewed: {
    button: "Invia un nuovo link",
    title: "Controlla la tua e-mail",
    text: "Se è possibile inviare un nuovo link, è già in arrivo.",
  },
  signIn: "Accedi",
  onward: {
    title: "Continua",
    text: "Il reindirizzamento è in corso. Se non succede nulla, segui il link.",
  },
  invalid: {
    title: "Questo link non è valido",
    text:
      "Forse ne manca una parte. Aprilo dall’e-mail più recente, oppure copialo per intero nella " +
      "barra degli indirizzi, da https:// fino all’ultimo carattere, " +
      "anche ciò che sta su una seconda riga. Se non basta, chiedi un nuovo link.",
  },
  expired: { title: "Questo link è scaduto", text: "Chiedi un nuovo link." },
  used: {
    title: "Questo link è già stato usato",
    text:
      "Un link funziona una volta sola. Se sei stato tu, non c’è altro da fare. " +
      "Altrimenti chiedi un nuovo link.",
  },
  locked: {
    title: "Sono stati provati troppi codici",
    text: "Nemmeno il codice giusto apre più questo link. Chiedi un nuovo link.",
  },
  lockedElsewhere: "Apri il link nel browser in cui lo hai richiesto. Lì funziona ancora.",
  ineligible: {
    title: "L’account non può usare questo link adesso",
    text: "Forse è già attivo oppure bloccato. Il link resta com’è.",
  },
  error: {
    title: "Apri di nuovo il link",
    text:
      "Questa pagina non sa quale link hai aperto. Apri il link dall’e-mail e premi il pulsante. " +
      "Se l’avevi già premuto, la pagina dirà se ha funzionato.",
  },
  failure: {
    title: "Questo sito ha un problema",
    text: "Riprovare per ora non aiuta. Avvisa chi gestisce il sito.",
  },
  blocked: {
    title: "Apri di nuovo il link",
    text:
      "Apri ancora una volta il link dall’e-mail. Se rivedi questa pagina, " +
      "consenti i cookie per questo sito.",
  },
  scripts: {
    title: "Consenti gli script per questa pagina",
    text:
      "Senza script questo link non si può leggere. Consenti JavaScript per questo sito, " +
      "poi apri di nuovo il link dall’e-mail.",
  },
  wrongCode: {
    title: "Il codice non è questo",
    text: "Controlla le {digits} cifre e scrivile di nuovo.",
  },
  missingCode: {
    title: "Scrivi il codice intero",
    text: "Scrivi tutte le {digits} cifre del codice.",
  },
  wrongCodes: {
    title: "Le cifre non sono queste",
    text: "Controlla il codice e le cifre dell’altro browser, e scrivili di nuovo.",
  },
  missingCodes: {
    title: "Scrivi tutte le cifre",
    text: "Scrivi il codice intero e tutte le cifre che mostra l’altro browser.",
  },
  away: {
    title: "Riprova tra un momento",
    text: "Al momento non possiamo rispondere. Nulla è stato fatto e il tuo link funziona ancora.",
  },
  unknown: {
    title: "Riprova tra un momento",
    text: "Non si sa se ha funzionato. Se poi il link risulta già usato, ha funzionato.",
  },
};
