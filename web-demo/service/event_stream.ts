// Server-sent events: a stream of JSON messages, each with a name.

import type { ServerResponse } from "node:http";

/** How often a silent stream says that it is alive, in milliseconds. */
const HEARTBEAT = 15_000;

export class EventStream {
  readonly #response: ServerResponse;

  /** @param closed runs when the reader is gone */
  constructor(response: ServerResponse, closed: () => void) {
    this.#response = response;
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    // A moment to wait before connecting anew, in milliseconds.
    response.write("retry: 1000\n\n");
    const heartbeat = setInterval(() => response.write(":\n\n"), HEARTBEAT);
    response.on("close", () => {
      clearInterval(heartbeat);
      closed();
    });
  }

  /**
   * @param mark where the reader is after it; a reader that comes again sends
   * that as `Last-Event-ID`
   */
  send(event: string, data: unknown, mark?: string): void {
    // JSON has no line breaks of its own.
    this.#write(`${idOf(mark)}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  #write(text: string): void {
    if (!this.#response.destroyed) this.#response.write(text);
  }
}

function idOf(mark: string | undefined): string {
  return mark === undefined ? "" : `id: ${mark}\n`;
}
