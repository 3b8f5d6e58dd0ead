import type { Texts } from "../texts.js";

export const de: Texts = {
  actions: {
    activate: {
      title: "Konto aktivieren",
      text:
        "Drücken Sie den Knopf, um Ihr Konto zu aktivieren. " +
        "Das Öffnen dieser Seite hat noch nichts geändert.",
      button: "Mein Konto aktivieren",
      done: "Ihr Konto ist aktiv",
    },
    recover: {
      title: "Konto wiederherstellen",
      text:
        "Geben Sie die {digits} Ziffern des Codes ein. " +
        "Er steht in der E-Mail, deren Link Sie geöffnet haben.",
      button: "Mein Konto wiederherstellen",
      done: "Ihr Konto ist wiederhergestellt",
    },
    sign_in: {
      title: "Anmelden",
      text:
        "Drücken Sie den Knopf, um sich anzumelden. " +
        "Das Öffnen dieser Seite hat noch nichts geändert.",
      button: "Anmelden",
      done: "Sie sind angemeldet",
    },
    invite: {
      title: "Einladung annehmen",
      text:
        "Drücken Sie den Knopf, um die Einladung anzunehmen. " +
        "Das Öffnen dieser Seite hat noch nichts geändert.",
      button: "Einladung annehmen",
      done: "Die Einladung ist angenommen",
    },
    change_email: {
      title: "Neue E-Mail-Adresse bestätigen",
      text:
        "Drücken Sie den Knopf, um diese Adresse für Ihr Konto zu verwenden. " +
        "Das Öffnen dieser Seite hat noch nichts geändert.",
      button: "Adresse bestätigen",
      done: "Ihr Konto hat die neue Adresse",
    },
    other: {
      title: "Bestätigen",
      text:
        "Drücken Sie den Knopf, um zu bestätigen. " +
        "Das Öffnen dieser Seite hat noch nichts geändert.",
      button: "Bestätigen",
      done: "Bestätigt",
    },
  },
  code: "Code ({digits} Ziffern)",
  password: {
    label: "Neues Passwort",
    hint: "Mindestens {min} Zeichen. Mehrere Wörter hintereinander sind eine gute Wahl.",
    show: "Passwort anzeigen",
    title: "Wählen Sie ein anderes Passwort",
    text: "Das Passwort muss {min} bis {max} Zeichen haben.",
  },
  browserCode: "Ziffern aus dem anderen Browser ({digits})",
  elsewhere:
    "Sie haben diesen Link in einem anderen Browser angefordert. " +
    "Geben Sie die {digits} Ziffern ein, die dort stehen.",
  elsewhereWithCode:
    "Sie haben diesen Link in einem anderen Browser angefordert. " +
    "Geben Sie den Code ein und die {digits} Ziffern, die dort stehen.",
  close: "Sie können diese Seite schließen. Der Link funktioniert nun nicht mehr.",
  newLink: "Neuen Link anfordern",
  renewed: {
    button: "Neuen Link senden",
    title: "Sehen Sie in Ihr Postfach",
    text: "Wenn ein neuer Link gesendet werden kann, ist er unterwegs.",
  },
  signIn: "Anmelden",
  onward: {
    title: "Weiter",
    text: "Sie werden weitergeleitet. Wenn nichts geschieht, folgen Sie dem Link.",
  },
  invalid: {
    title: "Dieser Link ist ungültig",
    text:
      "Vielleicht fehlt ein Teil. Öffnen Sie den Link aus der neuesten E-Mail oder kopieren " +
      "Sie ihn ganz in die Adresszeile, von https:// bis zum letzten Zeichen, " +
      "auch was in einer zweiten Zeile steht. Hilft das nicht, fordern Sie einen neuen Link an.",
  },
  expired: { title: "Dieser Link ist abgelaufen", text: "Fordern Sie einen neuen Link an." },
  used: {
    title: "Dieser Link wurde schon benutzt",
    text:
      "Ein Link funktioniert nur einmal. Waren Sie das, ist nichts mehr zu tun. " +
      "Wenn nicht, fordern Sie einen neuen Link an.",
  },
  locked: {
    title: "Es wurden zu viele Codes ausprobiert",
    text: "Auch der richtige Code öffnet diesen Link nicht mehr. Fordern Sie einen neuen Link an.",
  },
  lockedElsewhere:
    "Öffnen Sie den Link in dem Browser, in dem Sie ihn angefordert haben. " +
    "Dort funktioniert er weiterhin.",
  ineligible: {
    title: "Dieser Link funktioniert für das Konto derzeit nicht",
    text: "Das Konto ist vielleicht schon aktiv oder gesperrt. Der Link bleibt, wie er ist.",
  },
  error: {
    title: "Öffnen Sie den Link noch einmal",
    text:
      "Diese Seite weiß nicht, welchen Link Sie geöffnet haben. Öffnen Sie den Link aus der " +
      "E-Mail und drücken Sie den Knopf. Haben Sie ihn schon gedrückt, steht dann dort, " +
      "ob es geklappt hat.",
  },
  failure: {
    title: "Diese Website hat ein Problem",
    text: "Ein neuer Versuch hilft noch nicht. Sagen Sie es denen, die diese Website betreiben.",
  },
  blocked: {
    title: "Öffnen Sie den Link noch einmal",
    text:
      "Öffnen Sie den Link noch einmal aus der E-Mail. Sehen Sie diese Seite wieder, " +
      "erlauben Sie Cookies für diese Website.",
  },
  scripts: {
    title: "Erlauben Sie Skripte für diese Seite",
    text:
      "Ohne Skripte lässt sich dieser Link nicht lesen. Erlauben Sie JavaScript für diese " +
      "Website und öffnen Sie dann den Link aus der E-Mail noch einmal.",
  },
  wrongCode: {
    title: "Das ist nicht der Code",
    text: "Vergleichen Sie die {digits} Ziffern und geben Sie sie noch einmal ein.",
  },
  missingCode: {
    title: "Geben Sie den ganzen Code ein",
    text: "Geben Sie alle {digits} Ziffern des Codes ein.",
  },
  wrongCodes: {
    title: "Das sind nicht die richtigen Ziffern",
    text:
      "Vergleichen Sie den Code und die Ziffern aus dem anderen Browser " +
      "und geben Sie beides noch einmal ein.",
  },
  missingCodes: {
    title: "Geben Sie alle Ziffern ein",
    text: "Geben Sie den ganzen Code ein und alle Ziffern, die im anderen Browser stehen.",
  },
  away: {
    title: "Versuchen Sie es gleich noch einmal",
    text:
      "Wir können gerade nicht antworten. " +
      "Es wurde nichts geändert, und Ihr Link funktioniert weiterhin.",
  },
  unknown: {
    title: "Versuchen Sie es gleich noch einmal",
    text:
      "Wir wissen nicht, ob es geklappt hat. " +
      "Heißt es dann, der Link wurde schon benutzt, hat es geklappt.",
  },
};
