import type { Texts } from "../texts.js";

export const fr: Texts = {
  actions: {
    activate: {
      title: "Activer votre compte",
      text: "Appuyez sur le bouton pour activer votre compte. Rien n’a encore été fait.",
      button: "Activer mon compte",
      done: "Votre compte est actif",
    },
    recover: {
      title: "Récupérer votre compte",
      text: "Saisissez les {digits} chiffres de votre code.",
      button: "Récupérer mon compte",
      done: "Votre compte est récupéré",
    },
    other: {
      title: "Confirmer",
      text: "Appuyez sur le bouton pour confirmer. Rien n’a encore été fait.",
      button: "Confirmer",
      done: "C’est confirmé",
    },
  },
  code: "Code ({digits} chiffres)",
  elsewhere:
    "Vous avez demandé ce lien dans un autre navigateur. Saisissez les {digits} chiffres qui y sont affichés.",
  close: "Vous pouvez fermer cette page. Le lien ne fonctionne plus.",
  invalid: {
    title: "Ce lien n’est pas valide",
    text: "Il en manque peut-être une partie. Ouvrez-le depuis le message le plus récent ou demandez un nouveau lien.",
  },
  expired: { title: "Ce lien a expiré", text: "Demandez un nouveau lien." },
  used: {
    title: "Ce lien a déjà été utilisé",
    text: "Un lien sert une seule fois. Si c’était vous, il n’y a plus rien à faire. Sinon, demandez un nouveau lien.",
  },
  locked: {
    title: "Trop de codes ont été essayés",
    text: "Même le bon code n’ouvre plus ce lien. Demandez un nouveau lien.",
  },
  lockedElsewhere: "Ouvrez le lien dans le navigateur où vous l’avez demandé. Il y fonctionne toujours.",
  ineligible: {
    title: "Le compte ne peut pas utiliser ce lien pour le moment",
    text: "Il est peut-être déjà actif ou bloqué. Le lien reste tel quel.",
  },
  error: {
    title: "Ouvrez de nouveau le lien",
    text: "Cette demande n’a pas été comprise et rien n’a été fait. Ouvrez le lien du message et appuyez sur le bouton.",
  },
  failure: {
    title: "Ce site a un problème",
    text: "Votre lien n’a pas été utilisé et un nouvel essai n’aide pas encore. Prévenez les responsables du site.",
  },
  blocked: {
    title: "Ouvrez de nouveau le lien",
    text: "Ouvrez encore une fois le lien du message. Si cette page revient, autorisez les cookies de ce site.",
  },
  scripts: {
    title: "Autorisez les scripts pour cette page",
    text: "Sans scripts, ce lien ne peut pas être lu. Autorisez JavaScript pour ce site, puis ouvrez de nouveau le lien du message.",
  },
  wrongCode: {
    title: "Ce n’est pas le bon code",
    text: "Vérifiez les {digits} chiffres et saisissez-les de nouveau.",
  },
  missingCode: { title: "Le code manque", text: "Saisissez les {digits} chiffres du code." },
  away: {
    title: "Réessayez dans un instant",
    text: "Nous ne pouvons pas répondre actuellement. Rien n’a été fait et votre lien fonctionne toujours.",
  },
  unknown: {
    title: "Réessayez dans un instant",
    text: "Nous ne savons pas si cela a réussi. Si le lien est ensuite signalé comme utilisé, c’est le cas.",
  },
};
