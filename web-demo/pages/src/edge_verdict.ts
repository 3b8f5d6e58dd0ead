// Asks the edge about a link as whoever opens it does, and reads what its page says.

export interface EdgeVerdict {
  readonly good: boolean;
  readonly words: string;
  readonly milliseconds: number;
}

/**
 * Opening a link uses nothing. The last question is the one that counts: earlier ones are given up.
 */
export async function askEdge(
  token: string,
  action: string,
  signal: AbortSignal,
): Promise<EdgeVerdict> {
  const started = performance.now();
  // The token goes the way of every link; the address of this page never has it.
  const response = await fetch(`/${action}?${new URLSearchParams({ token })}`, { signal });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const reason = page.querySelector("main .note code")?.textContent;
  const title = page.querySelector("h1")?.textContent ?? "no answer";
  return {
    good: response.ok,
    words: response.ok ? "lets it through to the button" : `refuses it: ${reason ?? title}`,
    milliseconds: performance.now() - started,
  };
}
