// What workerd runs of `pg`: the `accounts.ts` of REFERENCE.md, with a pool as a Worker needs it.

import { pg } from "mailroom-verifier/database";
import { Pool } from "pg";

import { register, requestLink } from "./accounts.ts";

export default {
  async fetch(request, env, context) {
    const { pathname, searchParams } = new URL(request.url);
    const form = searchParams;
    if (pathname === "/register") {
      await register(form.get("email"));
      return new Response("registered");
    }
    if (pathname === "/ask") {
      const binding = new Uint8Array(16).fill(7);
      return new Response(await requestLink(form, binding, context));
    }
    try {
      pg(new Pool({ connectionString: env.DATABASE_URL }));
      return new Response("taken");
    } catch (error) {
      return new Response(error.message);
    }
  },
};
