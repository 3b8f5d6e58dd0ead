// What the demonstration tells its pages, see stage/.

export interface Settings {
  readonly format: "v1" | "v2" | "v3";
  /** Seconds. */
  readonly lifetime: number;
  readonly key: { readonly current: number; readonly count: number };
  /** The address of the inbox's own page. */
  readonly inbox: string;
}

export type PartState = "starting" | "up" | "stopped" | "down";

export interface Mail {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  /** Empty for none, as the action. */
  readonly link: string;
  readonly action: string;
  readonly receivedAt: number;
}

interface TokenState {
  readonly id: number;
  readonly expiresAt: number;
  readonly usedAt: number | null;
  readonly tries?: number;
}

export interface Account {
  readonly login: string;
  readonly email: string;
  readonly status: "provisioned" | "active" | "suspended";
  readonly activation: TokenState | null;
  readonly recovery: TokenState | null;
}

/** Of a table that knows nothing of accounts. */
export interface Invitation {
  /** A uuid. */
  readonly id: string;
  readonly team: string;
  /** Seconds since the Unix epoch. */
  readonly acceptedAt: number | null;
}

export interface Person {
  readonly account?: Account | null;
  readonly invitation?: Invitation | null;
}

export interface Counts {
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly census: Readonly<Record<"registered" | "waiting" | "claimed" | "sent", number>>;
  readonly edge?: {
    readonly opened: number;
    readonly verified: number;
    readonly refused: Readonly<Record<string, number>>;
    readonly calls: number;
  };
  readonly origin?: Readonly<Record<"register" | "request" | "invite", number>>;
  readonly inbox?: { readonly received: number; readonly repeated: number };
}

export interface Progress {
  readonly title: string;
  readonly done: number;
  readonly of: number;
  readonly statuses: Readonly<Record<string, number>>;
  readonly running: boolean;
  readonly elapsed: number;
}

/** What a change of the demonstration is answered with: how it is then. */
export interface Answer {
  /** As events have it for their id: what is older is not so any more. */
  readonly revision: number;
  readonly settings: Settings;
  readonly parts: Readonly<Record<string, PartState>>;
}

export interface Messages {
  readonly parts: Readonly<Record<string, PartState>>;
  readonly settings: Settings;
  readonly mail: Mail;
  readonly person: Person;
  readonly counts: Counts;
  readonly "load-registrations": Progress;
  readonly "load-flood": Progress;
}
