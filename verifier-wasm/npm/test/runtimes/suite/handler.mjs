// The handler of `./handler`, asked by requests as a person,
// a mail scanner and an attacker send them.

import { handlerAgain } from "./handler_again.mjs";
import { handlerBadInput } from "./handler_bad_input.mjs";
import { handlerBinding } from "./handler_binding.mjs";
import { handlerBound } from "./handler_bound.mjs";
import { handlerBoundTries } from "./handler_bound_tries.mjs";
import { handlerCodes } from "./handler_codes.mjs";
import { handlerFragment } from "./handler_fragment.mjs";
import { handlerLanguages } from "./handler_languages.mjs";
import { handlerLog } from "./handler_log.mjs";
import { handlerMended } from "./handler_mended.mjs";
import { handlerOnward } from "./handler_onward.mjs";
import { handlerOptions } from "./handler_options.mjs";
import { handlerOrigins } from "./handler_origins.mjs";
import { handlerOutages } from "./handler_outages.mjs";
import { handlerPages } from "./handler_pages.mjs";
import { handlerPassword } from "./handler_password.mjs";
import { handlerPressing } from "./handler_pressing.mjs";
import { handlerProcesses } from "./handler_processes.mjs";
import { handlerRenew } from "./handler_renew.mjs";
import { handlerSite } from "./handler_site.mjs";
import { handlerV1 } from "./handler_v1.mjs";
import { handlerVerdicts } from "./handler_verdicts.mjs";
import { handlerVerifiers } from "./handler_verifiers.mjs";
import { handlerWithoutScript } from "./handler_without_script.mjs";

export function* handler(subject) {
  if (subject.handlerEntry === undefined) return;
  yield* handlerPressing(subject);
  yield* handlerCodes(subject);
  yield* handlerVerdicts(subject);
  yield* handlerOutages(subject);
  yield* handlerOptions(subject);
  yield* handlerV1(subject);
  yield* handlerVerifiers(subject);
  yield* handlerOrigins(subject);
  yield* handlerLog(subject);
  yield* handlerBound(subject);
  yield* handlerBoundTries(subject);
  yield* handlerBinding(subject);
  yield* handlerFragment(subject);
  yield* handlerPages(subject);
  yield* handlerLanguages(subject);
  yield* handlerBadInput(subject);
  yield* handlerMended(subject);
  yield* handlerAgain(subject);
  yield* handlerWithoutScript(subject);
  yield* handlerPassword(subject);
  yield* handlerRenew(subject);
  yield* handlerSite(subject);
  yield* handlerOnward(subject);
  yield* handlerProcesses(subject);
}
