import type { Texts } from "../texts.js";

export const es: Texts = {
  actions: {
    activate: {
      title: "Active su cuenta",
      text: "Pulse el botón para activar su cuenta. Abrir esta página no ha cambiado nada.",
      button: "Activar mi cuenta",
      done: "Su cuenta está activa",
    },
    recover: {
      title: "Recupere su cuenta",
      text:
        "Escriba los {digits} dígitos del código. " + "Está en el correo cuyo enlace ha abierto.",
      button: "Recuperar mi cuenta",
      done: "Su cuenta se ha recuperado",
    },
    sign_in: {
      title: "Inicie sesión",
      text: "Pulse el botón para iniciar sesión. Abrir esta página no ha cambiado nada.",
      button: "Iniciar sesión",
      done: "Ha iniciado sesión",
    },
    invite: {
      title: "Acepte la invitación",
      text: "Pulse el botón para aceptar la invitación. Abrir esta página no ha cambiado nada.",
      button: "Aceptar la invitación",
      done: "La invitación está aceptada",
    },
    change_email: {
      title: "Confirme su nueva dirección",
      text:
        "Pulse el botón para usar esta dirección en su cuenta. " +
        "Abrir esta página no ha cambiado nada.",
      button: "Confirmar la dirección",
      done: "Su cuenta tiene la nueva dirección",
    },
    other: {
      title: "Confirmar",
      text: "Pulse el botón para confirmar. Abrir esta página no ha cambiado nada.",
      button: "Confirmar",
      done: "Confirmado",
    },
  },
  code: "Código ({digits} dígitos)",
  password: {
    label: "Nueva contraseña",
    hint: "Al menos {min} caracteres. Varias palabras seguidas son una buena opción.",
    show: "Mostrar la contraseña",
    title: "Elija otra contraseña",
    text: "La contraseña debe tener entre {min} y {max} caracteres.",
  },
  browserCode: "Dígitos que muestra el otro navegador ({digits})",
  elsewhere: "Pidió este enlace en otro navegador. Escriba los {digits} dígitos que aparecen allí.",
  elsewhereWithCode:
    "Pidió este enlace en otro navegador. " +
    "Escriba el código y los {digits} dígitos que aparecen allí.",
  close: "Puede cerrar esta página. El enlace ya no funciona.",
  newLink: "Pedir un enlace nuevo",
  renewed: {
    button: "Enviar un enlace nuevo",
    title: "Revise su correo",
    text: "Si se puede enviar un enlace nuevo, ya está en camino.",
  },
  signIn: "Iniciar sesión",
  onward: {
    title: "Continuar",
    text: "Redirección en curso. Si no ocurre nada, siga el enlace.",
  },
  invalid: {
    title: "Este enlace no es válido",
    text:
      "Puede que falte una parte. Ábralo desde el correo más reciente o cópielo entero en la " +
      "barra de direcciones, desde https:// hasta el último carácter, " +
      "también lo que esté en una segunda línea. Si eso no basta, pida un enlace nuevo.",
  },
  expired: { title: "Este enlace ha caducado", text: "Pida un enlace nuevo." },
  used: {
    title: "Este enlace ya se ha usado",
    text:
      "Un enlace funciona una sola vez. Si ha sido usted, no tiene que hacer nada más. " +
      "Si no, pida un enlace nuevo.",
  },
  locked: {
    title: "Se han probado demasiados códigos",
    text: "Ni siquiera el código correcto abre ya este enlace. Pida un enlace nuevo.",
  },
  lockedElsewhere: "Abra el enlace en el navegador en el que lo pidió. Allí sigue funcionando.",
  ineligible: {
    title: "Este enlace no funciona ahora para la cuenta",
    text: "Puede que la cuenta ya esté activa o bloqueada. El enlace queda como está.",
  },
  error: {
    title: "Abra el enlace otra vez",
    text:
      "Esta página no sabe qué enlace ha abierto. Abra el enlace del correo y pulse el botón. " +
      "Si ya lo había pulsado, la página dirá entonces si ha funcionado.",
  },
  failure: {
    title: "Este sitio tiene un problema",
    text: "Volver a intentarlo aún no sirve. Avise a quienes gestionan el sitio.",
  },
  blocked: {
    title: "Abra el enlace otra vez",
    text:
      "Abra de nuevo el enlace del correo. Si vuelve a ver esta página, " +
      "permita las cookies de este sitio.",
  },
  scripts: {
    title: "Permita los scripts en esta página",
    text:
      "Sin scripts no se puede leer este enlace. " +
      "Permita JavaScript en este sitio y abra de nuevo el enlace del correo.",
  },
  wrongCode: {
    title: "Ese no es el código",
    text: "Compruebe los {digits} dígitos y escríbalos de nuevo.",
  },
  missingCode: {
    title: "Escriba el código entero",
    text: "Escriba los {digits} dígitos del código.",
  },
  wrongCodes: {
    title: "Esos no son los dígitos correctos",
    text: "Compruebe el código y los dígitos del otro navegador, y escríbalos de nuevo.",
  },
  missingCodes: {
    title: "Escriba todos los dígitos",
    text: "Escriba el código entero y todos los dígitos que muestra el otro navegador.",
  },
  away: {
    title: "Inténtelo de nuevo en un momento",
    text: "Ahora no podemos responder. No se ha hecho nada y su enlace sigue funcionando.",
  },
  unknown: {
    title: "Inténtelo de nuevo en un momento",
    text:
      "No sabemos si ha funcionado. " +
      "Si después la página dice que el enlace ya se ha usado, ha funcionado.",
  },
};
