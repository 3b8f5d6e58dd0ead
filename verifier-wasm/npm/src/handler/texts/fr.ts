import type { Texts } from "../texts.js";

export const fr: Texts = {
  actions: {
    activate: {
      title: "Activez votre compte",
      text:
        "Appuyez sur le bouton pour activer votre compte. " +
        "L’ouverture de cette page n’a rien changé.",
      button: "Activer mon compte",
      done: "Votre compte est actif",
    },
    recover: {
      title: "Récupérez votre compte",
      text:
        "Saisissez les {digits} chiffres du code. " +
        "Il se trouve dans l’e-mail dont vous avez ouvert le lien.",
      button: "Récupérer mon compte",
      done: "Votre compte est récupéré",
    },
    sign_in: {
      title: "Connectez-vous",
      text: "Appuyez sur le bouton pour vous connecter. L’ouverture de cette page n’a rien changé.",
      button: "Se connecter",
      done: "La connexion est établie",
    },
    invite: {
      title: "Acceptez l’invitation",
      text:
        "Appuyez sur le bouton pour accepter l’invitation. " +
        "L’ouverture de cette page n’a rien changé.",
      button: "Accepter l’invitation",
      done: "L’invitation est acceptée",
    },
    change_email: {
      title: "Confirmez votre nouvelle adresse e-mail",
      text:
        "Appuyez sur le bouton pour utiliser cette adresse avec votre compte. " +
        "L’ouverture de cette page n’a rien changé.",
      button: "Confirmer l’adresse",
      done: "Votre compte utilise la nouvelle adresse",
    },
    other: {
      title: "Confirmer",
      text: "Appuyez sur le bouton pour confirmer. L’ouverture de cette page n’a rien changé.",
      button: "Confirmer",
      done: "C’est confirmé",
    },
  },
  code: "Code ({digits} chiffres)",
  password: {
    label: "Nouveau mot de passe",
    hint: "Au moins {min} caractères. Plusieurs mots à la suite conviennent très bien.",
    show: "Afficher le mot de passe",
    title: "Choisissez un autre mot de passe",
    text: "Le mot de passe doit compter de {min} à {max} caractères.",
  },
  browserCode: "Chiffres affichés dans l’autre navigateur ({digits})",
  elsewhere:
    "Vous avez demandé ce lien dans un autre navigateur. " +
    "Saisissez les {digits} chiffres qui y sont affichés.",
  elsewhereWithCode:
    "Vous avez demandé ce lien dans un autre navigateur. " +
    "Saisissez le code et les {digits} chiffres qui y sont affichés.",
  close: "Vous pouvez fermer cette page. Le lien ne fonctionne plus.",
  newLink: "Demander un nouveau lien",
  renewed: {
    button: "Envoyer un nouveau lien",
    title: "Consultez vos e-mails",
    text: "Si un nouveau lien peut être envoyé, il est en route.",
  },
  signIn: "Se connecter",
  onward: {
    title: "Continuer",
    text: "Redirection en cours. Si rien ne se passe, suivez le lien.",
  },
  invalid: {
    title: "Ce lien n’est pas valide",
    text:
      "Il en manque peut-être une partie. Ouvrez-le depuis l’e-mail le plus récent ou " +
      "copiez-le en entier dans la barre d’adresse, de https:// au dernier caractère, y compris " +
      "ce qui se trouve sur une deuxième ligne. Si cela ne suffit pas, demandez un nouveau lien.",
  },
  expired: { title: "Ce lien a expiré", text: "Demandez un nouveau lien." },
  used: {
    title: "Ce lien a déjà été utilisé",
    text:
      "Un lien fonctionne une seule fois. Si c’était vous, il n’y a plus rien à faire. " +
      "Sinon, demandez un nouveau lien.",
  },
  locked: {
    title: "Trop de codes ont été essayés",
    text: "Même le bon code n’ouvre plus ce lien. Demandez un nouveau lien.",
  },
  lockedElsewhere:
    "Ouvrez le lien dans le navigateur où vous l’avez demandé. Il y fonctionne toujours.",
  ineligible: {
    title: "Ce lien ne fonctionne pas pour le compte actuellement",
    text: "Le compte est peut-être déjà actif ou bloqué. Le lien reste tel quel.",
  },
  error: {
    title: "Ouvrez de nouveau le lien",
    text:
      "Cette page ne sait pas quel lien vous avez ouvert. Ouvrez le lien de l’e-mail et appuyez " +
      "sur le bouton. Si vous l’avez déjà fait, la page dira alors si cela a fonctionné.",
  },
  failure: {
    title: "Ce site rencontre un problème",
    text: "Réessayer ne sert à rien pour l’instant. Prévenez les responsables du site.",
  },
  blocked: {
    title: "Ouvrez de nouveau le lien",
    text:
      "Ouvrez encore une fois le lien de l’e-mail. Si cette page revient, " +
      "autorisez les cookies de ce site.",
  },
  scripts: {
    title: "Autorisez les scripts pour cette page",
    text:
      "Sans scripts, ce lien ne peut pas être lu. Autorisez JavaScript pour ce site, " +
      "puis ouvrez de nouveau le lien de l’e-mail.",
  },
  wrongCode: {
    title: "Ce n’est pas le bon code",
    text: "Vérifiez les {digits} chiffres et saisissez-les de nouveau.",
  },
  missingCode: {
    title: "Saisissez le code entier",
    text: "Saisissez les {digits} chiffres du code.",
  },
  wrongCodes: {
    title: "Ce ne sont pas les bons chiffres",
    text: "Vérifiez le code et les chiffres de l’autre navigateur, puis saisissez-les de nouveau.",
  },
  missingCodes: {
    title: "Saisissez tous les chiffres",
    text: "Saisissez le code entier et tous les chiffres affichés dans l’autre navigateur.",
  },
  away: {
    title: "Réessayez dans un instant",
    text:
      "Nous ne pouvons pas répondre actuellement. " +
      "Rien n’a été fait et votre lien fonctionne toujours.",
  },
  unknown: {
    title: "Réessayez dans un instant",
    text:
      "Nous ne savons pas si cela a fonctionné. " +
      "Si la page dit ensuite que le lien a déjà été utilisé, c’est le cas.",
  },
};
