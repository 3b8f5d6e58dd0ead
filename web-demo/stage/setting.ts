// What the program that starts the stage tells it, on the first line of standard input: passwords are in no argument and
// no variable. The input stays open for as long as the demonstration is to run.

export interface Role {
  readonly user: string;
  readonly password: string;
}

export interface Setting {
  /** Where the built programs and pages are. */
  readonly site: string;
  /** A folder for keys and logs, and one for what the edge stores; removed at the end. */
  readonly folder: string;
  readonly objects: string;
  /** The programs `mailroom` and `workerd`. */
  readonly mailroom: string;
  readonly workerd: string;
  readonly database: { readonly host: string; readonly port: number; readonly name: string };
  /** Who migrated, who collects, who is the application. */
  readonly owner: Role;
  readonly collector: Role;
  readonly application: Role;
  /** Whether to show the page in a browser of the desktop, if there is one. */
  readonly open: boolean;
}

/** The variables by which libpq, and all that follow it, find the database. */
export function databaseVariables({ database }: Setting, { user, password }: Role): Record<string, string> {
  return {
    PGHOST: database.host,
    PGPORT: String(database.port),
    PGDATABASE: database.name,
    PGUSER: user,
    PGPASSWORD: password,
  };
}
