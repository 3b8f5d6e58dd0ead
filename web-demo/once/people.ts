// What the people of the demonstration do in the database.

import type { Pool } from "pg";

import type { Item } from "./line.ts";

export interface Person {
  readonly name: string;
  readonly login: string;
  readonly email: string;
}

const NAMES = [
  "Ada Lovelace",
  "Alan Turing",
  "Grace Hopper",
  "Edsger Dijkstra",
  "Barbara Liskov",
  "Donald Knuth",
  "Margaret Hamilton",
  "Tony Hoare",
  "Frances Allen",
  "Niklaus Wirth",
  "Radia Perlman",
  "John Backus",
  "Joan Clarke",
  "Dennis Ritchie",
  "Adele Goldberg",
  "Ken Thompson",
  "Hedy Lamarr",
  "Claude Shannon",
  "Jean Bartik",
  "Leslie Lamport",
  "Sophie Wilson",
  "Whitfield Diffie",
  "Shafi Goldwasser",
  "Ron Rivest",
  "Mary Jackson",
];

export const PEOPLE: readonly Person[] = NAMES.map((name) => {
  const login = name.toLowerCase().replace(" ", ".");
  return { name, login, email: `${login}@example.test` };
});

/** Inserts an account. The database makes its activation token in the same transaction. */
export async function register(application: Pool, { email, login }: Person): Promise<void> {
  await application.query("INSERT INTO accounts (email, login) VALUES ($1, $2)", [email, login]);
}

export async function requestRecovery(application: Pool, { login }: Person): Promise<void> {
  await application.query("SELECT mailroom.request($1, 'recover')", [login]);
}

/** Redeems the token of an activation link, which activates the account. */
export async function activate(application: Pool, { token }: Item): Promise<void> {
  const redeem = "SELECT verdict FROM mailroom.redeem($1, 'activate', NULL)";
  const { rows } = await application.query(redeem, [
    Buffer.from(token, "base64url").subarray(0, 32),
  ]);
  if (rows[0]?.verdict !== "ok")
    throw new Error(`a verified link is not redeemed: ${rows[0]?.verdict}`);
}

/** The fields of every token that the database has made. */
export async function madeTokens(owner: Pool): Promise<Omit<Item & { secret: string }, "token">[]> {
  const { rows } = await owner.query(
    `SELECT encode(secret, 'hex') AS secret, email, login, code,
        CASE action WHEN 'activation' THEN 'activate' ELSE 'recover' END AS action
      FROM tokens JOIN accounts ON accounts.id = tokens.account`,
  );
  return rows;
}
