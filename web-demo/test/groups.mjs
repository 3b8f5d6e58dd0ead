// The groups of the suite. Each one begins with the demonstration as it is after its start, but for
// the people in its database; so a group registers people of its own, and compares counters with
// what they were at its beginning.

import { existsSync } from "node:fs";

import { byKeyboard, everyPage } from "./accessibility.mjs";
import { answeredLate, buttonsAnsweredLate, oneAfterTheOther, typedMeanwhile } from "./asked.mjs";
import { badLinks, badRegistrations } from "./bad_input.mjs";
import { edgeAlone } from "./edge.mjs";
import { leaks } from "./ending.mjs";
import { openShortLived, pressTooLate } from "./expiry.mjs";
import { fragments } from "./fragments.mjs";
import { inspecting } from "./inspector.mjs";
import { invitations } from "./invitations.mjs";
import { linksOf } from "./links.mjs";
import { mailsAsTheyAre } from "./mails.mjs";
import {
  beginsWithoutTheInbox,
  outages,
  recoveringInAnOutage,
  rowThatIsHeld,
  standingStill,
  staysKilled,
} from "./outages.mjs";
import { pipeline } from "./pipeline.mjs";
import { failsToStart, passwords } from "./roles.mjs";
import { services } from "./services.mjs";
import { addressFirst, otherPage, suspended } from "./strangers.mjs";
import { twoTabs } from "./tabs.mjs";

/** What needs no browser and no demonstration. */
export const ALONE = [
  { title: "the edge alone", needsWorkerd: true, work: edgeAlone },
  { title: "the services alone", work: services },
  { title: "a start that fails", work: ({ program }) => failsToStart(program) },
];

/**
 * What a browser does with one demonstration. `prepare` runs before all groups, for what takes a
 * minute to become as the group needs it; its result is the second argument of `work`. `outage`:
 * connections that break are part of the group.
 */
export const GROUPS = [
  { title: "a link of v3", work: (scene) => linksOf("v3", scene) },
  { title: "a link of v2", work: (scene) => linksOf("v2", scene) },
  { title: "a link of v1", work: (scene) => linksOf("v1", scene) },
  { title: "settings that are answered late", outage: true, work: answeredLate },
  { title: "buttons that are answered late", work: buttonsAnsweredLate },
  { title: "what is typed meanwhile", work: typedMeanwhile },
  { title: "people one after the other", work: oneAfterTheOther },
  { title: "the mails", work: mailsAsTheyAre },
  { title: "an invitation", work: invitations },
  ...(existsSync("/proc/self/environ") ? [{ title: "the roles", work: passwords }] : []),
  { title: "two tabs", work: twoTabs },
  { title: "a suspended account", work: suspended },
  { title: "the page of the other action", work: otherPage },
  { title: "the token in the address", work: addressFirst },
  { title: "the token behind #", work: fragments },
  { title: "a link that expires", prepare: openShortLived, work: pressTooLate },
  { title: "the inspector", work: inspecting },
  { title: "by keyboard", work: byKeyboard },
  { title: "bad registrations", work: badRegistrations },
  { title: "bad links", work: badLinks },
  { title: "the pipeline", work: pipeline },
  { title: "every page for everybody", outage: true, work: everyPage },
  { title: "parts that die", outage: true, work: outages },
  { title: "parts that stand still", work: standingStill },
  { title: "a row that is held", work: rowThatIsHeld },
  { title: "recovering in an outage", outage: true, work: recoveringInAnOutage },
  { title: "a collector that is killed while it is down", work: staysKilled },
  { title: "a page without the inbox", work: beginsWithoutTheInbox },
  { title: "what is left in logs", work: leaks },
];
