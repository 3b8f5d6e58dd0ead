import type { Texts } from "../texts.js";

export const pt: Texts = {
  actions: {
    activate: {
      title: "Ative a sua conta",
      text: "Pressione o botão para ativar a sua conta. Abrir esta página não alterou nada.",
      button: "Ativar a minha conta",
      done: "A sua conta está ativa",
    },
    recover: {
      title: "Recupere a sua conta",
      text: "Insira os {digits} dígitos do código. Está no e-mail cujo link abriu.",
      button: "Recuperar a minha conta",
      done: "A sua conta foi recuperada",
    },
    sign_in: {
      title: "Inicie sessão",
      text: "Pressione o botão para iniciar sessão. Abrir esta página não alterou nada.",
      button: "Iniciar sessão",
      done: "A sessão foi iniciada",
    },
    invite: {
      title: "Aceite o convite",
      text: "Pressione o botão para aceitar o convite. Abrir esta página não alterou nada.",
      button: "Aceitar o convite",
      done: "O convite foi aceite",
    },
    change_email: {
      title: "Confirme o seu novo endereço",
      text:
        "Pressione o botão para usar este endereço na sua conta. " +
        "Abrir esta página não alterou nada.",
      button: "Confirmar o endereço",
      done: "A sua conta tem o novo endereço",
    },
    other: {
      title: "Confirmar",
      text: "Pressione o botão para confirmar. Abrir esta página não alterou nada.",
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
  elsewhere: "Pediu este link noutro navegador. Insira os {digits} dígitos que aí aparecem.",
  elsewhereWithCode:
    "Pediu este link noutro navegador. Insira o código e os {digits} dígitos que aí aparecem.",
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
    text: "Redirecionamento em curso. Se nada acontecer, siga o link.",
  },
  invalid: {
    title: "Este link não é válido",
    text:
      "Pode faltar uma parte. Abra-o a partir do e-mail mais recente ou copie-o inteiro para a " +
      "barra de endereço, de https:// até ao último carácter, " +
      "incluindo o que está numa segunda linha. Se isso não bastar, peça um novo link.",
  },
  expired: { title: "Este link expirou", text: "Peça um novo link." },
  used: {
    title: "Este link já foi usado",
    text:
      "Um link funciona uma só vez. Se o usou, não há mais nada a fazer. " +
      "Caso contrário, peça um novo link.",
  },
  locked: {
    title: "Foram tentados demasiados códigos",
    text: "Nem o código certo abre já este link. Peça um novo link.",
  },
  lockedElsewhere: "Abra o link no navegador em que o pediu. Aí continua a funcionar.",
  ineligible: {
    title: "Este link não funciona agora para a conta",
    text: "Talvez a conta já esteja ativa ou bloqueada. O link fica como está.",
  },
  error: {
    title: "Abra o link outra vez",
    text:
      "Esta página não sabe que link abriu. Abra o link do e-mail e pressione o " +
      "botão. Se já o tinha feito, a página dirá então se funcionou.",
  },
  failure: {
    title: "Este site tem um problema",
    text: "Tentar de novo ainda não resolve. Avise quem gere o site.",
  },
  blocked: {
    title: "Abra o link outra vez",
    text:
      "Abra outra vez o link do e-mail. Se voltar a ver esta página, " +
      "permita os cookies deste site.",
  },
  scripts: {
    title: "Permita scripts nesta página",
    text:
      "Sem scripts não é possível ler este link. " +
      "Permita JavaScript neste site e abra outra vez o link do e-mail.",
  },
  wrongCode: {
    title: "Esse não é o código certo",
    text: "Confira os {digits} dígitos e insira-os novamente.",
  },
  missingCode: {
    title: "Insira o código inteiro",
    text: "Insira todos os {digits} dígitos do código.",
  },
  wrongCodes: {
    title: "Esses não são os dígitos certos",
    text: "Confira o código e os dígitos do outro navegador e insira-os novamente.",
  },
  missingCodes: {
    title: "Insira todos os dígitos",
    text: "Insira o código inteiro e todos os dígitos que o outro navegador mostra.",
  },
  away: {
    title: "Tente de novo dentro de momentos",
    text: "De momento não podemos responder. Nada mudou e o seu link continua a funcionar.",
  },
  unknown: {
    title: "Tente de novo dentro de momentos",
    text:
      "Não sabemos se funcionou. " +
      "Se depois a página disser que o link já foi usado, funcionou.",
  },
};
