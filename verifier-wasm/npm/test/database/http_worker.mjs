// What workerd runs of `http`. A Worker reaches servers of its own network by bindings.

import { calls } from "./http_calls.mjs";
import { outcomes } from "./outcomes.mjs";

export default {
  async fetch(_, env) {
    const ask = (url, init) => env[new URL(url).hostname.toUpperCase()].fetch(url, init);
    const prepared = JSON.parse(env.PREPARED);
    const servers = { url: "http://serve", away: "http://away", nobody: "http://nobody" };
    return Response.json(await outcomes(calls({ ...prepared, ...servers }, ask)));
  },
};
