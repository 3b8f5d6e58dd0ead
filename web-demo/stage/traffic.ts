// Many requests to the edge, some beside each other, as from many visitors.

export interface Progress {
  readonly title: string;
  readonly done: number;
  readonly of: number;
  /** How often each status was answered; 0 stands for no answer. */
  readonly statuses: Record<number, number>;
  readonly running: boolean;
  /** In milliseconds. */
  readonly elapsed: number;
}

const BESIDE = 24;

/** Sends `of` requests, and tells how far it is a few times a second. */
export async function send(
  title: string,
  of: number,
  request: (number: number) => Promise<Response>,
  tell: (progress: Progress) => void,
): Promise<Progress> {
  const started = Date.now();
  const statuses: Record<number, number> = {};
  let next = 0;
  let done = 0;
  const progress = (running: boolean): Progress => ({
    title,
    done,
    of,
    statuses: { ...statuses },
    running,
    elapsed: Date.now() - started,
  });
  const visitor = async () => {
    while (next < of) {
      const number = next++;
      let status = 0;
      try {
        const response = await request(number);
        await response.arrayBuffer();
        status = response.status;
      } catch {
        // The edge is away; the count tells.
      }
      statuses[status] = (statuses[status] ?? 0) + 1;
      done += 1;
    }
  };
  // At once, too: what is shown until then is the end of the run before.
  tell(progress(true));
  const timer = setInterval(() => tell(progress(true)), 250);
  await Promise.all(Array.from({ length: BESIDE }, visitor));
  clearInterval(timer);
  const final = progress(false);
  tell(final);
  return final;
}
