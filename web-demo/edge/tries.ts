// Counts the tries of a code, in a way that lets a try be taken back of which nobody has learnt anything.
//
// The store of the package counts every try, whatever becomes of it: it cannot know. Here it is known. If the origin was
// away, there was no verdict, and five presses during an outage must not lock anybody out. Counting down would be wrong:
// what is sent twice would count down twice, and somebody would get a sixth guess. So each try is a ticket with a name of
// its own, and taking it back is the same however often that is done.
//
// Nobody gets more than five verdicts on wrong codes: a ticket is taken before the code is looked at, its number is how
// many stand by then, itself included, and that of a wrong code stands for ever.

/** More stand only while that many ask at once, and none of those gets a verdict. */
const MOST = 100;

/** How long an object is waited for, in milliseconds: for a number as long as the guard waits for its store. */
const TIMEOUTS = { take: 5_000, giveBack: 2_000 };

/** Keeps what was begun going after whoever asked has hung up, or the answer was sent. */
export type KeepAlive = (work: Promise<unknown>) => void;

interface Entry {
  readonly tickets: readonly string[];
  /** Seconds since the Unix epoch. */
  readonly rememberUntil: number;
}

/** The Durable Object with the tickets of one link. */
export class CodeTries {
  readonly #storage: DurableObjectStorage;

  constructor(state: DurableObjectState) {
    this.#storage = state.storage;
  }

  async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const ticket = searchParams.get("ticket");
    const until = Number(searchParams.get("until") ?? Number.NaN);
    if (request.method !== "POST" || ticket === null) return new Response("no ticket", { status: 400 });
    if (pathname === "/take" && Number.isFinite(until)) return this.#take(ticket, until);
    if (pathname === "/give-back") return this.#giveBack(ticket);
    return new Response("no such method", { status: 404 });
  }

  /** Forgets the link, once its time is over. */
  async alarm(): Promise<void> {
    const entry = await this.#entry();
    if (entry !== undefined && entry.rememberUntil > Date.now() / 1000) {
      await this.#storage.setAlarm(Math.ceil(entry.rememberUntil * 1000));
    } else await this.#storage.deleteAll();
  }

  async #take(ticket: string, until: number): Promise<Response> {
    const { tickets = [], rememberUntil = until } = (await this.#entry()) ?? {};
    if (tickets.length >= MOST) return new Response(String(MOST + 1));
    const all = [...new Set([...tickets, ticket])];
    await this.#storage.put("entry", { tickets: all, rememberUntil: Math.max(rememberUntil, until) });
    if ((await this.#storage.getAlarm()) === null) await this.#storage.setAlarm(Math.ceil(until * 1000));
    return new Response(String(all.length));
  }

  async #giveBack(ticket: string): Promise<Response> {
    const entry = await this.#entry();
    if (entry === undefined) return new Response("given back");
    const tickets = entry.tickets.filter((other) => other !== ticket);
    if (tickets.length > 0) await this.#storage.put("entry", { ...entry, tickets });
    else {
      // Nothing is left to remember: what only looks like a link leaves no object behind.
      await this.#storage.deleteAlarm();
      await this.#storage.deleteAll();
    }
    return new Response("given back");
  }

  #entry(): Promise<Entry | undefined> {
    return this.#storage.get<Entry>("entry");
  }
}

/** The tries of one request, which makes one at most. */
export class Tries {
  readonly #binding: DurableObjectNamespace;
  readonly #namespace: string;
  readonly #keepAlive: KeepAlive;
  #taken: { readonly object: DurableObjectStub; readonly ticket: string } | undefined;

  constructor(binding: DurableObjectNamespace, namespace: string, keepAlive: KeepAlive) {
    this.#binding = binding;
    this.#namespace = namespace;
    this.#keepAlive = keepAlive;
  }

  /** As the method of a store: takes the next number for a try. */
  async attempt(id: Uint8Array, rememberUntil: number): Promise<number> {
    const name = Array.from(id, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const object = this.#binding.get(this.#binding.idFromName(`${this.#namespace}/${name}`));
    const ticket = crypto.randomUUID();
    // Noted first: one whose answer is lost can be given back all the same.
    this.#taken = { object, ticket };
    return Number(await within(TIMEOUTS.take, ask(object, `take?ticket=${ticket}&until=${rememberUntil}`)));
  }

  /** Takes the try back. Returns whether it does not count; one of which that is not known in time may. */
  async giveBack(): Promise<boolean> {
    if (this.#taken === undefined) return true;
    const { object, ticket } = this.#taken;
    const givenBack = ask(object, `give-back?ticket=${ticket}`).then(
      () => true,
      () => false,
    );
    // Whoever pressed waits no longer than this; the try is taken back all the same, if the object answers in the end.
    this.#keepAlive(givenBack);
    return within(TIMEOUTS.giveBack, givenBack).catch(() => false);
  }
}

async function within<Value>(timeout: number, answer: Promise<Value>): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | null = null;
  const tooLate = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error("the tries of a link did not answer in time")), timeout);
  });
  try {
    return await Promise.race([answer, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}

async function ask(object: DurableObjectStub, what: string): Promise<string> {
  const response = await object.fetch(`https://code-tries/${what}`, { method: "POST" });
  const text = await response.text();
  if (!response.ok) throw new Error(`the tries of a link answered with status ${response.status}`);
  return text;
}
