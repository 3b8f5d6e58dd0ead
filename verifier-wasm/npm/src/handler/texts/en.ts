import type { Texts } from "../texts.js";

export const en: Texts = {
  actions: {
    activate: {
      title: "Activate your account",
      text: "Press the button to activate your account. Opening this page has changed nothing.",
      button: "Activate my account",
      done: "Your account is active",
    },
    recover: {
      title: "Recover your account",
      text: "Type the {digits} digits of the code in the email that brought you here.",
      button: "Recover my account",
      done: "Your account is recovered",
    },
    sign_in: {
      title: "Sign in",
      text: "Press the button to sign in. Opening this page has changed nothing.",
      button: "Sign in",
      done: "You are signed in",
    },
    invite: {
      title: "Accept the invitation",
      text: "Press the button to accept the invitation. Opening this page has changed nothing.",
      button: "Accept the invitation",
      done: "The invitation is accepted",
    },
    change_email: {
      title: "Confirm your new email address",
      text:
        "Press the button to use this address for your account. " +
        "Opening this page has changed nothing.",
      button: "Confirm the address",
      done: "Your account has the new address",
    },
    other: {
      title: "Confirm",
      text: "Press the button to confirm. Opening this page has changed nothing.",
      button: "Confirm",
      done: "Confirmed",
    },
  },
  code: "Code ({digits} digits)",
  password: {
    label: "New password",
    hint: "At least {min} characters. Several words in a row are a good choice.",
    show: "Show the password",
    title: "Choose another password",
    text: "A password needs {min} to {max} characters.",
  },
  browserCode: "The {digits} digits that the other browser shows",
  elsewhere:
    "You asked for this link in another browser. Type the {digits} digits that you see there.",
  elsewhereWithCode:
    "You asked for this link in another browser. " +
    "Type the code, and the {digits} digits that you see there.",
  close: "You can close this page. The link does not work any more.",
  newLink: "Ask for a new link",
  renewed: {
    button: "Send a new link",
    title: "Check your email",
    text: "If a new link can be sent, it is on its way.",
  },
  signIn: "Sign in",
  onward: {
    title: "Continue",
    text: "We are taking you on. If nothing happens, follow the link.",
  },
  invalid: {
    title: "This link is not valid",
    text:
      "Part of it may be missing. Open it from the newest email, or copy all of it into the " +
      "address bar, from https:// to its last character, also what is on a second line. " +
      "If that does not help, ask for a new link.",
  },
  expired: { title: "This link has expired", text: "Ask for a new link." },
  used: {
    title: "This link was already used",
    text:
      "A link works once. If it was you, there is nothing left to do. " +
      "If not, ask for a new link.",
  },
  locked: {
    title: "Too many codes were tried",
    text: "The right code does not open this link any more either. Ask for a new link.",
  },
  lockedElsewhere: "Open the link in the browser in which you asked for it. It still works there.",
  ineligible: {
    title: "This link does not work for the account now",
    text: "The account may be active already, or blocked. The link stays as it is.",
  },
  error: {
    title: "Open the link again",
    text:
      "This page does not know which link you opened. Open the link from the email, and press " +
      "the button. If you have pressed it before, the page then says whether it has worked.",
  },
  failure: {
    title: "This site has a problem",
    text: "Trying again does not help yet. Tell the people who run this site.",
  },
  blocked: {
    title: "Open the link again",
    text:
      "Open the link from the email once more. If you see this page again, " +
      "allow cookies for this site.",
  },
  scripts: {
    title: "Allow scripts for this page",
    text:
      "Without scripts this link cannot be read. Allow JavaScript for this site, " +
      "then open the link from the email again.",
  },
  wrongCode: {
    title: "That is not the code",
    text: "Compare the {digits} digits, and type them again.",
  },
  missingCode: { title: "Type the whole code", text: "Type all {digits} digits of the code." },
  wrongCodes: {
    title: "These are not the right digits",
    text: "Compare the code and the digits of the other browser, and type both again.",
  },
  missingCodes: {
    title: "Type all digits",
    text: "Type the whole code, and all digits that the other browser shows.",
  },
  away: {
    title: "Try again in a moment",
    text: "We cannot answer at present. Nothing was done, and your link still works.",
  },
  unknown: {
    title: "Try again in a moment",
    text:
      "We do not know whether this worked. " +
      "If the page then says that the link was used, it has worked.",
  },
};
