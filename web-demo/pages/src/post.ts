// Asks for something to be done, and returns what to say about it.

export interface Reply {
  readonly ok: boolean;
  /** A sentence for people. */
  readonly message: string;
  /** Which field of a form the message is about. */
  readonly field: string | undefined;
  /** Everything that was answered; empty without an answer. */
  readonly body: Readonly<Record<string, unknown>>;
}

export async function post(path: string, body: unknown): Promise<Reply> {
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const answer = (await response.json()) as Record<string, unknown>;
    const { message = "", field } = answer as { message?: string; field?: string };
    return { ok: response.ok, message, field, body: answer };
  } catch {
    return {
      ok: false,
      message: "The demonstration does not answer. Is it still running?",
      field: undefined,
      body: {},
    };
  }
}
