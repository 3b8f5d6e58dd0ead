// The page on which one link is followed from the registration to the click.

import { showAccount, showInvitation } from "./account.ts";
import { byId } from "./element.ts";
import { clearInbox, showInbox, showMail } from "./inbox.ts";
import { Live } from "./live.ts";
import { showConnection, showParts } from "./parts.ts";
import { onInvitation, onRegistration, onRequest, suggest } from "./register.ts";
import { onSettings } from "./settings.ts";
import { Steps } from "./steps.ts";

const steps = new Steps(byId("steps"));
const live = new Live(showConnection)
  .on("parts", showParts)
  .on("mail", (mail) => {
    showMail(mail);
    steps.done("mail");
  })
  .on("person", ({ account = null, invitation = null }) => {
    showAccount(account);
    steps.follow(account);
    showInvitation(invitation);
  });

onSettings(live);
live.on("settings", ({ inbox }) => showInbox(inbox));
/** A page that is loaded anew goes on with the same person. */
const remembered = sessionStorage.getItem("email") ?? undefined;
live.follow(remembered);
suggest();

onRegistration((email) => {
  sessionStorage.setItem("email", email);
  clearInbox();
  steps.restart();
  live.follow(email);
});
onRequest(() => sessionStorage.getItem("email"));
onInvitation(() => sessionStorage.getItem("email"));
