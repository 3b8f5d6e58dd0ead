/**
 * A store of used tokens in DynamoDB, through the client that you have.
 *
 * @module
 */

import { described } from "../../arguments/described.js";
import { readMethod, readOptions } from "../../arguments/options.js";
import { readClock } from "../../arguments/seconds.js";
import { InvalidArgumentError, StoreUnavailableError } from "../../errors/errors.js";
import { hexadecimal, readNamespace } from "../../stores/base.js";
import { answering, isEnd, TOO_LATE } from "../../stores/entry.js";
import { answerOf, eventOf, MOST_EVENTS } from "../../stores/history.js";
import type { TokenStore } from "../../stores/token_store.js";

/**
 * A client of the class `DynamoDB` of `@aws-sdk/client-dynamodb`, or what has the same two methods.
 */
export interface DynamoDbClient {
  // biome-ignore lint/suspicious/noExplicitAny: the client types its arguments too narrowly
  updateItem(input: any): Promise<object>;
  // biome-ignore lint/suspicious/noExplicitAny: the same
  getItem(input: any): Promise<object>;
}

/** What {@link createDynamoDbStore} takes. Options of other names are refused. */
export interface DynamoDbStoreOptions {
  readonly client: DynamoDbClient;
  /**
   * The name of the table. Its partition key is `id`, a string, and it has no sort key;
   * `rememberUntil` is the attribute to turn its Time to Live on for.
   */
  readonly table: string;
  /**
   * Begins every id: 1 to 64 letters, digits, dots, hyphens and underscores.
   * One for each installation.
   */
  readonly namespace: string;
  /**
   * Tells the time in seconds since the Unix epoch, by which an entry is over.
   *
   * @default the system's clock
   */
  readonly clock?: (() => number) | undefined;
}

/** How often an item is asked for that others change in between. */
const ROUNDS = 10;

/**
 * Remembers used tokens in a table of DynamoDB, each in one item, by one conditional update for
 * each operation, and by the clock of whoever asks: one that has read the future lets entries end
 * sooner, or refuses links that are still valid, only as long as it does. An update that runs
 * again, as clients do when an answer is lost, changes nothing by that. It takes two more requests
 * if the item is to be remembered for less long than before, is over but not deleted yet, or has
 * 400 operations; then those that would change something are refused.
 *
 * Updates of an item are done one after the other in its Region; in a global table of eventual
 * consistency every Region lets a link through once, so give all edges a client of one Region.
 *
 * @throws InvalidArgumentError
 * @example
 * const client = new DynamoDB({ region: "eu-central-1" });
 * const store = createDynamoDbStore({ client, table: "used_tokens", namespace: "mailroom" });
 */
export function createDynamoDbStore(options: DynamoDbStoreOptions): Required<TokenStore> {
  const [client, table, given, clock] = readOptions(options, [
    "client",
    "table",
    "namespace",
    "clock",
  ]);
  const [updateItem, getItem] = [readMethod(client, "updateItem"), readMethod(client, "getItem")];
  if (!updateItem || !getItem) {
    throw new InvalidArgumentError(
      `the option client must be a DynamoDB of @aws-sdk/client-dynamodb, not ${described(client)}`,
    );
  }
  if (typeof table !== "string" || !/^[\w.:/-]{1,1024}$/.test(table)) {
    throw new InvalidArgumentError(`the option table must name a table, not ${described(table)}`);
  }
  const namespace = readNamespace(given);
  const now = readClock(clock);

  /** The answer after the update; nothing if the condition does not hold. */
  async function update(
    id: string,
    event: Text,
    UpdateExpression: string,
    ConditionExpression: string,
    values: Readonly<Record<string, Value>>,
  ): Promise<string | undefined> {
    try {
      const changed = await updateItem?.({
        TableName: table,
        Key: { id: { S: id } },
        UpdateExpression,
        ConditionExpression,
        ExpressionAttributeValues: { ...values, ":event": { L: [event] } },
        ReturnValues: "ALL_NEW",
      });
      const { history } = readItem((changed as { Attributes?: unknown } | undefined)?.Attributes);
      return answerOf(history, event.S);
    } catch (error) {
      if ((error as Error | undefined)?.name === "ConditionalCheckFailedException")
        return undefined;
      throw explained(error);
    }
  }

  function append(id: string, event: Text, until: number) {
    return update(
      id,
      event,
      "SET history = list_append(if_not_exists(history, :none), :event), rememberUntil = :until",
      "attribute_not_exists(id) OR (rememberUntil > :now AND rememberUntil <= :until AND " +
        "size(history) < :most)",
      {
        ":none": { L: [] },
        ":until": { N: String(until) },
        ":now": { N: String(now()) },
        ":most": { N: String(MOST_EVENTS) },
      },
    );
  }

  /**
   * What `append` cannot do: to an item that is over, full,
   * or to be remembered for longer than this.
   */
  async function appendToFound(id: string, event: Text, until: number) {
    const input = { TableName: table, Key: { id: { S: id } }, ConsistentRead: true };
    const { Item } = ((await getItem?.(input)) ?? {}) as { Item?: unknown };
    const found = Item === undefined ? undefined : readItem(Item);
    if (found === undefined || found.rememberUntil <= now()) {
      if (until <= now()) return "over";
      if (found === undefined) return undefined;
      return update(
        id,
        event,
        "SET history = :event, rememberUntil = :until",
        "rememberUntil = :seen",
        {
          ":until": { N: String(until) },
          ":seen": { N: String(found.rememberUntil) },
        },
      );
    }
    if (found.history.length >= MOST_EVENTS) return answerOf(found.history, event.S);
    if (found.rememberUntil <= until) return undefined;
    const values = {
      ":seen": { N: String(found.rememberUntil) },
      ":most": { N: String(MOST_EVENTS) },
    };
    const condition = "rememberUntil = :seen AND size(history) < :most";
    return update(id, event, "SET history = list_append(history, :event)", condition, values);
  }

  return answering(async (what, token, rememberUntil, owner) => {
    const [id, event] = [
      `${namespace}/${hexadecimal(token)}`,
      { S: eventOf(what, hexadecimal(owner)) },
    ];
    // Time to Live takes whole seconds.
    const until = Math.ceil(rememberUntil);
    for (let round = 0; round < ROUNDS; round += 1) {
      const isOver = rememberUntil <= now();
      if (isOver && !isEnd(what)) return TOO_LATE;
      const answer =
        (isOver ? undefined : await append(id, event, until)) ??
        (await appendToFound(id, event, until));
      if (answer !== undefined) return answer;
    }
    throw new StoreUnavailableError("others change the entry of this link all the time");
  });
}

/** An attribute as DynamoDB writes it: a string, a number, a list. */
type Text = { readonly S: string };
type Value = Text | { readonly N: string } | { readonly L: readonly Value[] };

interface Item {
  readonly history: readonly unknown[];
  readonly rememberUntil: number;
}

function readItem(item: unknown): Item {
  const { history, rememberUntil } = (item ?? {}) as {
    history?: { L?: unknown };
    rememberUntil?: { N?: unknown };
  };
  const [list, until] = [history?.L, Number(rememberUntil?.N ?? Number.NaN)];
  if (Array.isArray(list) && Number.isFinite(until))
    return {
      history: list.map((event) => (event as { S?: unknown } | null)?.S),
      rememberUntil: until,
    };
  throw new StoreUnavailableError(
    `the client answered with ${described(item)}, not with an item of this store`,
  );
}

/** Adds a hint to known errors. */
function explained(cause: unknown): unknown {
  if ((cause as Error | undefined)?.name !== "ResourceNotFoundException") return cause;
  return new StoreUnavailableError("there is no such table in this Region and account", { cause });
}
