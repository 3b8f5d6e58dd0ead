// What the parts of a demonstration are started with.

import type { Access } from "./database.ts";
import type { Folders } from "./folders.ts";

export interface Setting extends Access, Folders {
  /** Where the built programs and pages are. */
  readonly site: string;
  /** The programs `mailroom`, `mailroom-inbox` and `workerd`. */
  readonly mailroom: string;
  readonly inbox: string;
  readonly workerd: string;
}
