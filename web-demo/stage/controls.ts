// The buttons of the pages, behind the edge at /demo/.

import { BadRequest, type Handler, readObject } from "../service/server.ts";
import type { Audience } from "./audience.ts";
import type { Format, Keys } from "./keys.ts";
import type { Load } from "./load.ts";
import { askForMails, askForPage, type Mail, type Page } from "./mail.ts";
import type { Observer } from "./observer.ts";
import type { Parts, Signing } from "./parts.ts";

const FORMATS: readonly unknown[] = ["v1", "v2", "v3"] satisfies Format[];
const MOST_REQUESTS = 20_000;

/** How long the inbox is waited for, in milliseconds. Nothing else waits for it. */
const TIMEOUT = 180_000;

export interface Stage {
  readonly parts: Parts;
  readonly keys: Keys;
  readonly signing: Signing;
  readonly observer: Observer;
  readonly audience: Audience;
  readonly load: Load;
}

export function controls(stage: () => Stage): Record<string, Handler> {
  const inTurn = turns();
  return {
    "GET /demo/events": async (_request, response, url) => {
      const { audience, parts } = stage();
      const email = url.searchParams.get("email") ?? undefined;
      // Joined before the mailbox is asked: what arrives in between is told by one of the two.
      const earlier = email === undefined ? Promise.resolve([]) : mails(parts, { to: email });
      audience.join(response, email, earlier);
      return undefined;
    },

    "GET /demo/mail": async (_request, response, url) => {
      const page = await mail(stage().parts, url.searchParams.get("id") ?? "");
      if (page === undefined) throw new BadRequest("There is no such mail.", 404);
      response.writeHead(200, {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": page.policy,
      });
      // As mail programs do: links open beside the mail.
      response.end(page.html.replace("<head>", '<head><base target="_blank">'));
      return undefined;
    },

    "GET /demo/mails": async () => ({
      body: (await mails(stage().parts, { limit: "20" })).reverse(),
    }),

    "POST /demo/format": async (request) => {
      const { parts, signing } = stage();
      const { format } = await readObject(request);
      if (!FORMATS.includes(format)) throw new BadRequest("The format is v1, v2 or v3.", 422);
      return inTurn(async () => {
        if (format !== signing.format) {
          signing.format = format as Format;
          // The format is a setting, and a change of settings is a restart: what is on its way goes
          // out in the old format, what waits in the new one, and verifiers accept both.
          if (parts.collector.state !== "stopped") {
            await parts.collector.stop();
            await parts.collector.start();
          }
        }
        return { body: settings(stage()) };
      });
    },

    "POST /demo/lifetime": async (request) => {
      const { seconds } = await readObject(request);
      return inTurn(async () => {
        if (!(await stage().observer.setLifetime(seconds)))
          throw new BadRequest("Tokens live 60 or 900 seconds.", 422);
        return { body: settings(stage()) };
      });
    },

    "POST /demo/collector": async (request) => {
      const { collector } = stage().parts;
      const { run } = await readObject(request);
      if (typeof run !== "boolean") throw new BadRequest("Send run: true or false.", 422);
      return inTurn(async () => {
        await (run ? collector.start() : collector.kill());
        return { body: settings(stage()) };
      });
    },

    "POST /demo/rotate": () =>
      inTurn(async () => {
        const { keys, parts } = stage();
        if (!keys.advance())
          throw new BadRequest(
            "Every key of this run has had its turn. Start the demonstration anew.",
            409,
          );
        // The verifiers have known the key from the beginning; now the signer reads its file again.
        parts.collector.signal("SIGHUP");
        return { body: settings(stage()) };
      }),

    "POST /demo/registrations": async (request) => {
      stage().load.registrations(readCount((await readObject(request)).count));
      return { status: 202, body: {} };
    },

    "POST /demo/flood": async (request) => {
      stage().load.flood(readCount((await readObject(request)).count));
      return { status: 202, body: {} };
    },
  };
}

/** Tells the audience what is set now, and returns how everything is that a page can change. */
export function settings({ parts, signing, observer, keys, audience }: Stage): unknown {
  audience.tell("settings", {
    format: signing.format,
    lifetime: observer.lifetime,
    key: keys.position,
    inbox: `${parts.inbox.url}/`,
  });
  return audience.newest("settings", "parts");
}

/**
 * Lets one change be made after the other: of two at once,
 * each would find the other one's half done.
 */
function turns(): <Result>(change: () => Promise<Result>) => Promise<Result> {
  let last: Promise<unknown> = Promise.resolve();
  return (change) => {
    const mine = last.then(change);
    last = mine.catch(() => undefined);
    return mine;
  };
}

function readCount(count: unknown): number {
  if (!Number.isSafeInteger(count) || (count as number) < 1 || (count as number) > MOST_REQUESTS) {
    throw new BadRequest(`A count is a whole number from 1 to ${MOST_REQUESTS}.`, 422);
  }
  return count as number;
}

/** A mail as it is to be read, or nothing if the inbox does not have it. */
async function mail({ inbox }: Parts, id: string): Promise<Page | undefined> {
  try {
    return await askForPage(inbox, id, AbortSignal.timeout(TIMEOUT));
  } catch {
    return undefined;
  }
}

/** The oldest first. */
async function mails({ inbox }: Parts, query: Record<string, string>): Promise<Mail[]> {
  try {
    const found = await askForMails(inbox, query, AbortSignal.timeout(TIMEOUT));
    return found.reverse().map(({ number, ...mail }) => mail);
  } catch {
    // Its part says that it is away.
    return [];
  }
}
