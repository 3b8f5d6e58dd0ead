// A mail as the inbox keeps it, and the text message that goes with a recovery.

/**
 * One token of a batch, see docs/OPERATIONS.md. JavaScript's numbers hold ids up to 2^53, which no demonstration reaches; a
 * sender for an older database keeps them as they stand in the text.
 */
export interface Item {
  readonly id: number;
  readonly attempt: number;
  readonly action: string;
  readonly path: string;
  readonly email: string;
  readonly login: string;
  readonly token: string;
  readonly code: string;
  readonly expires_at: number;
}

export interface Mail {
  /** Of the token's row; the key by which a second hand-over is noticed. */
  readonly id: number;
  readonly action: string;
  readonly to: string;
  readonly login: string;
  /** Begins at the path, so that it opens whatever the demonstration's address is. */
  readonly link: string;
  /** Sent to the telephone: beside the link it would add nothing. */
  readonly code: string | undefined;
  /** Seconds since the Unix epoch. */
  readonly expiresAt: number;
  /** Milliseconds since the Unix epoch. */
  readonly receivedAt: number;
  /** How often the collector handed it over. */
  readonly times: number;
}

export function mailOf(item: Item, receivedAt: number): Mail {
  const { id, action, email, login, path, token, code } = item;
  return {
    id,
    action,
    to: email,
    login,
    link: `${path}?token=${token}`,
    code: action === "recover" ? code : undefined,
    expiresAt: item.expires_at,
    receivedAt,
    times: 1,
  };
}
