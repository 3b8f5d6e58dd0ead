// The store in a cluster of three servers of Redis, by either client.

import { Cluster, Redis } from "ioredis";
import { createCluster } from "redis";

import { freePort } from "../ports.mjs";
import { rejection, same } from "../runtimes/suite/expect.mjs";
import { freshLinks } from "./links.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { redeeming } from "./redeeming.mjs";
import { COMMAND_TIMEOUT, withRedis } from "./redis_server.mjs";
import { PATIENCE, until, within } from "../waiting.mjs";

const SLOTS = 16_384;
const NODES = 3;

/** How much higher the port is on which the nodes talk to each other. */
const OF_THE_BUS = 10_000;

const CLIENTS = {
  async "node-redis"(ports) {
    const client = createCluster({
      rootNodes: ports.map((port) => ({ socket: { host: "127.0.0.1", port } })),
      defaults: { socket: { connectTimeout: COMMAND_TIMEOUT } },
      commandOptions: { timeout: COMMAND_TIMEOUT },
    });
    client.on("error", () => {});
    return { client: await client.connect(), end: () => client.destroy() };
  },
  async ioredis(ports) {
    const nodes = ports.map((port) => ({ host: "127.0.0.1", port }));
    // By default it asks for a second which node has what.
    const client = new Cluster(nodes, { slotsRefreshTimeout: COMMAND_TIMEOUT });
    // Such as a node that is late: it tries again.
    client.on("error", () => {});
    const ready = new Promise((resolve) => client.once("ready", resolve));
    await within("a client of the cluster", ready);
    return { client, end: () => client.disconnect() };
  },
};

export async function redisCluster({ report, load, name, program }) {
  const { createRedisStore } = load("stores/redis");
  const { checkStore } = load("conformance");
  await withCluster(program, async (nodes, ports) => {
    for (const [by, connect] of Object.entries(CLIENTS)) {
      const { client, end } = await connect(ports);
      const title = `cluster of ${name} by ${by}`;
      const makeStore = (namespace) => createRedisStore({ client, namespace });
      await report.run(`${title}, conformance`, async () =>
        ofChecks(await checkStore({ store: makeStore("conformance") }), ["errors", "full"]),
      );
      await report.run(`${title}, redeeming`, () =>
        outcomes(
          redeeming({ ...load("."), ...load("handler") }, freshLinks(), () =>
            makeStore(`redeeming-${by}`),
          ),
        ),
      );
      await report.run(`${title}, eviction`, () =>
        outcomes(eviction({ errors: load("errors") }, makeStore, nodes)),
      );
      end();
    }
  });
}

function* eviction(subject, makeStore, nodes) {
  for (const [place, node] of nodes.entries()) {
    yield [
      `a cluster of which node ${place + 1} may evict is refused, until it does not`,
      async () => {
        const bytes = () => crypto.getRandomValues(new Uint8Array(16));
        const until = Math.floor(Date.now() / 1000) + 600;
        await node.config("SET", "maxmemory-policy", "allkeys-lru");
        // Whichever node has the key, and whichever the client asks first.
        for (let time = 0; time < 10; time += 1) {
          const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", "eviction", () =>
            makeStore("eviction").consume(bytes(), until, bytes()),
          );
          same(/noeviction, not allkeys-lru/.test(error.message), true, error.message);
        }
        await node.config("SET", "maxmemory-policy", "noeviction");
        const store = makeStore("eviction");
        for (let time = 0; time < 30; time += 1)
          same(await store.consume(bytes(), until, bytes()), true, "without it");
      },
    ];
  }
}

/** Runs a cluster while `use` has a client of each of its nodes, and their ports. */
async function withCluster(program, use) {
  const ports = [];
  const withNodes = async (sockets) => {
    if (sockets.length < NODES) {
      const port = await freePort(OF_THE_BUS);
      ports.push(port);
      const settings = {
        port: String(port),
        bind: "127.0.0.1",
        "cluster-enabled": "yes",
        // A node that is not heard of for so long takes the whole cluster down.
        "cluster-node-timeout": String(PATIENCE),
        "maxmemory-policy": "noeviction",
      };
      return withRedis(program, settings, (socket) => withNodes([...sockets, socket]));
    }
    const nodes = sockets.map((path) => new Redis({ path }));
    try {
      const share = Math.ceil(SLOTS / NODES);
      for (const [place, node] of nodes.entries()) {
        const last = Math.min((place + 1) * share, SLOTS) - 1;
        await node.call("CLUSTER", "ADDSLOTSRANGE", place * share, last);
        await node.call("CLUSTER", "MEET", "127.0.0.1", ports[0]);
      }
      const isWhole = async (node) => {
        const info = await node.call("CLUSTER", "INFO");
        return info.includes("cluster_state:ok") && info.includes(`cluster_known_nodes:${NODES}`);
      };
      await until("a whole cluster", async () =>
        (await Promise.all(nodes.map(isWhole))).every(Boolean),
      );
      return await use(nodes, ports);
    } finally {
      for (const node of nodes) node.disconnect();
    }
  };
  return withNodes([]);
}
