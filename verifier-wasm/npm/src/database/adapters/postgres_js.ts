import { readMethod } from "../../arguments/options.js";
import { adapterOf, byStatements, runnerOf, type TransactionAdapter } from "../adapter.js";
import { demandMethod, type Method } from "./client.js";

/** What is used of postgres.js, or of Bun's SQL. */
export interface SqlFunction {
  // biome-ignore lint/suspicious/noExplicitAny: postgres.js types its parameters too narrowly
  unsafe(text: string, values?: any[]): PromiseLike<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: what it gives is inferred
  begin(work: (transaction: any) => any): Promise<any>;
}

/** What `begin` gives to its callback, in which a transaction is. */
export type TransactionOfSql<Sql> = Sql extends {
  begin: {
    (work: (transaction: infer Transaction) => infer _): unknown;
    (options: string, work: infer _Other): unknown;
  };
}
  ? Transaction
  : Sql extends { begin(work: (transaction: infer Transaction) => infer _): unknown }
    ? Transaction
    : never;

/** @internal `name`: what the adapter is called */
export function makeSql<Sql>(name: string, sql: Sql): TransactionAdapter<TransactionOfSql<Sql>> {
  const wanted = `${name} takes the function that runs statements, with unsafe and begin`;
  const unsafe = demandMethod(sql, "unsafe", wanted);
  const begin = demandMethod(sql, "begin", wanted);
  const of = "a transaction is what begin gives to its callback";
  return adapterOf({
    client: sql,
    alone: byStatements(runnerOf(unsafe)),
    transactions: {
      inside(transaction) {
        demandMethod(transaction, "savepoint", of);
        return runnerOf(demandMethod(transaction, "unsafe", of));
      },
      async transact(work) {
        const begun = name === "postgresJs" ? new Begun().begin(begin, work) : begin(work);
        return (await begun) as Awaited<ReturnType<typeof work>>;
      },
    },
  });
}

/** The callback of `begin` and of `savepoint`. */
type Work = (transaction: unknown) => unknown;

/**
 * A transaction of postgres.js. When its connection ends, `begin` fails at once, but whatever is
 * sent afterwards is written to a socket that is gone, which throws where nobody can catch it and
 * ends the process: the next statement, and the commit or the rollback after the callback. So
 * statements are refused then, and the callback never comes to an end.
 */
class Begun {
  #isOver = false;

  async begin(begin: Method, work: Work): Promise<unknown> {
    try {
      return await begin(this.#lasting(work));
    } finally {
      this.#isOver = true;
    }
  }

  #lasting(work: Work): Work {
    return async (transaction) => {
      try {
        return await this.#unlessOver(await work(this.#watched(transaction)));
      } catch (error) {
        // The statement that was sent fails in the moment in which `begin` does.
        await new Promise((resolve) => setTimeout(resolve));
        await this.#unlessOver(undefined);
        throw error;
      }
    };
  }

  #unlessOver<Result>(result: Result): Result | Promise<never> {
    return this.#isOver ? new Promise<never>(() => {}) : result;
  }

  #watched(transaction: unknown): unknown {
    return new Proxy(transaction as Method, {
      apply: (target, self, given: unknown[]) => {
        this.#demandOpen();
        return this.#heard(Reflect.apply(target, self, given));
      },
      get: (target, name) => {
        this.#demandOpen();
        const value: unknown = Reflect.get(target, name);
        // Methods that may be kept, and called when the connection has ended.
        if (name !== "unsafe" && name !== "savepoint") return value;
        return (...given: unknown[]) => {
          this.#demandOpen();
          const works = given.map((one) =>
            typeof one === "function" ? this.#lasting(one as Work) : one,
          );
          return this.#heard(Reflect.apply(value as Method, undefined, works));
        };
      },
    });
  }

  /** Whoever catches a failed statement may send the next one before `begin` fails. */
  #heard(query: unknown): unknown {
    const then = readMethod(query, "then");
    if (then)
      // biome-ignore lint/suspicious/noThenProperty: postgres.js' queries are promises
      (query as { then: unknown }).then = (done: unknown, failed: unknown) =>
        then(done, (error: unknown) => {
          this.#isOver ||= isEnd(error);
          if (typeof failed === "function") return failed(error) as unknown;
          throw error;
        });
    return query;
  }

  #demandOpen(): void {
    if (this.#isOver) throw new Error("the connection of this transaction has ended");
  }
}

/** Whether a statement failed with its connection: the server's last word, or no answer. */
function isEnd(error: unknown): boolean {
  const { severity, code, syscall } = Object(error) as Record<string, unknown>;
  return /^(?:FATAL|PANIC|CONNECTION_)/.test(`${severity ?? code}`) || syscall !== undefined;
}
