import type { Texts } from "../texts.js";

export const pt: Texts = {
  actions: {
    activate: {
      title: "Ativar a sua conta",
      text: "Prima o botão para ativar a sua conta. Abrir esta página não alterou nada.",
      button: "Ativar a minha conta",
      done: "A sua conta está ativa",
    },
    recover: {
      title: "Recuperar a sua conta",
      text: "Escreva os {digits} dígitos do código. Está no e-mail cujo link abriu.",
      button: "Recuperar a minha conta",
      done: "A sua conta foi recuperada",
    },
    other: {
      title: "Confirmar",
      text: "Prima o botão para confirmar. Abrir esta página não alterou nada.",
      button: "Confirmar",
      done: "Confirmado",
    },
  },
  code: "Código ({digits} dígitos)",
  password: {
    label: "Nova palavra-passe",
    hint: "Pelo menos {min} caracteres. Várias palavras seguidas são uma boa escolha.",
    show: "Mostrar a palavra-passe",
    title: "Escolha outra palavra-passe",
    text: "A palavra-passe deve ter entre {min} e {max} caracteres.",
  },
  browserCode: "Dígitos que o outro navegador mostra ({digits})",
  elsewhere: "Pediu este link noutro navegador. Escreva os {digits} dígitos que aí aparecem.",
  elsewhereWithCode:
    "Pediu este link noutro navegador. Escreva o código e os {digits} dígitos que aí aparecem.",
  close: "Pode fechar esta página. O link já não funciona.",
  newLink: "Pedir um novo link",
  renewed: {
    button: "Enviar um novo link",
    title: "Consulte o seu e-mail",
    text: "Se for possível enviar um novo link, ele já vai a caminho.",
  },
  signIn: "Iniciar sessão",
  onward: {
    title: "Continuar",
    text: "Está a ser redirecionado. Se nada acontecer, siga a ligação.",
  },
  invalid: {
    title: "Este link não é válido",
    text:
      "Pode faltar uma parte. Abra-o a partir do e-mail mais recente ou copie-o inteiro para a " +
      "barra de endereço, de https:// até ao último carácter, " +
      "incluindo o que está numa segunda linha. Se isso não ajudar, peça um novo link.",
  },
  expired: { title: "Este link expirou", text: "Peça um novo link." },
  used: {
    title: "Este link já foi usado",
    text:
      "Um link funciona uma só vez. Se foi você, não há mais nada a fazer. " +
      "Caso contrário, peça um novo link.",
  },
  locked: {
    title: "Foram tentados demasiados códigos",
    text: "Nem o código certo abre este link agora. Peça um novo link.",
  },
  lockedElsewhere: "Abra o link no navegador em que o pediu. Aí continua a funcionar.",
  ineligible: {
    title: "A conta não pode usar este link agora",
    text: "Talvez já esteja ativa ou bloqueada. O link fica como está.",
  },
  error: {
    title: "Abra o link outra vez",
    text:
      "Esta página não sabe que link abriu. Abra o link do e-mail e prima o botão. " +
      "Se já o tinha premido, a página dirá então se funcionou.",
  },
  failure: {
    title: "Este site tem um problema",
    text: "Tentar de novo ainda não ajuda. Avise os responsáveis pelo site.",
  },
  blocked: {
    title: "Abra o link outra vez",
    text:
      "Abra novamente o link do e-mail. Se voltar a ver esta página, " +
      "permita os cookies deste site.",
  },
  scripts: {
    title: "Permita scripts nesta página",
    text:
      "Sem scripts não é possível ler este link. " +
      "Permita JavaScript neste site e abra de novo o link da mensagem.",
  },
  wrongCode: {
    title: "Esse não é o código",
    text: "Confira os {digits} dígitos e escreva-os novamente.",
  },
  missingCode: {
    title: "Escreva o código inteiro",
    text: "Escreva todos os {digits} dígitos do código.",
  },
  wrongCodes: {
    title: "Esses não são os dígitos certos",
    text: "Confira o código e os dígitos do outro navegador, e escreva-os novamente.",
  },
  missingCodes: {
    title: "Escreva todos os dígitos",
    text: "Escreva o código inteiro e todos os dígitos que o outro navegador mostra.",
  },
  away: {
    title: "Tente de novo dentro de momentos",
    text: "De momento não podemos responder. Nada foi feito e o seu link continua a funcionar.",
  },
  unknown: {
    title: "Tente de novo dentro de momentos",
    text: "Não se sabe se funcionou. Se depois o link constar como usado, funcionou.",
  },
};
