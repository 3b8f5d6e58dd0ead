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
      text: "Inserisci le {digits} cifre del codice. Lo trovi nell’e-mail che ti ha portato qui.",
      button: "Recupera il mio account",
      done: "Il tuo account è stato recuperato",
    },
    sign_in: {
      title: "Accedi",
      text: "Premi il pulsante per accedere. Aprire questa pagina non ha cambiato nulla.",
      button: "Accedi",
      done: "L’accesso è riuscito",
    },
    invite: {
      title: "Accetta l’invito",
      text: "Premi il pulsante per accettare l’invito. Aprire questa pagina non ha cambiato nulla.",
      button: "Accetta l’invito",
      done: "L’invito è accettato",
    },
    change_email: {
      title: "Conferma il tuo nuovo indirizzo e-mail",
      text:
        "Premi il pulsante per usare questo indirizzo con il tuo account. " +
        "Aprire questa pagina non ha cambiato nulla.",
      button: "Conferma l’indirizzo",
      done: "Il tuo account usa il nuovo indirizzo",
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
  elsewhere:
    "Hai richiesto questo link in un altro browser. Inserisci le {digits} cifre che vedi lì.",
  elsewhereWithCode:
    "Hai richiesto questo link in un altro browser. " +
    "Inserisci il codice e le {digits} cifre che vedi lì.",
  close: "Puoi chiudere questa pagina. Il link non funziona più.",
  newLink: "Richiedi un nuovo link",
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
      "anche ciò che sta su una seconda riga. Se non basta, richiedi un nuovo link.",
  },
  expired: { title: "Questo link è scaduto", text: "Richiedi un nuovo link." },
  used: {
    title: "Questo link è già stato usato",
    text:
      "Un link funziona una volta sola. Se l’hai usato tu, non c’è altro da fare. " +
      "Altrimenti richiedi un nuovo link.",
  },
  locked: {
    title: "Sono stati provati troppi codici",
    text: "Nemmeno il codice giusto apre più questo link. Richiedi un nuovo link.",
  },
  lockedElsewhere: "Apri il link nel browser in cui lo hai richiesto. Lì funziona ancora.",
  ineligible: {
    title: "Questo link ora non funziona per l’account",
    text: "Forse l’account è già attivo oppure bloccato. Il link resta com’è.",
  },
  error: {
    title: "Apri di nuovo il link",
    text:
      "Questa pagina non sa quale link hai aperto. Apri il link dall’e-mail e premi il pulsante. " +
      "Se l’avevi già premuto, la pagina dirà se ha funzionato.",
  },
  failure: {
    title: "Questo sito ha un problema",
    text: "Riprovare per ora non serve. Avvisa chi gestisce il sito.",
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
    title: "Il codice non è corretto",
    text: "Controlla le {digits} cifre e inseriscile di nuovo.",
  },
  missingCode: {
    title: "Inserisci il codice intero",
    text: "Inserisci tutte le {digits} cifre del codice.",
  },
  wrongCodes: {
    title: "Le cifre non sono corrette",
    text: "Controlla il codice e le cifre dell’altro browser, poi inseriscili di nuovo.",
  },
  missingCodes: {
    title: "Inserisci tutte le cifre",
    text: "Inserisci il codice intero e tutte le cifre che mostra l’altro browser.",
  },
  away: {
    title: "Riprova tra un momento",
    text: "Al momento non possiamo rispondere. Non è cambiato nulla e il tuo link funziona ancora.",
  },
  unknown: {
    title: "Riprova tra un momento",
    text:
      "Non sappiamo se ha funzionato. " +
      "Se poi la pagina dice che il link è già stato usato, ha funzionato.",
  },
};
