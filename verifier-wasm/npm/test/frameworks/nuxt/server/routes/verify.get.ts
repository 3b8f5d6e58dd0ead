import { verify } from "../../verify.js";

export default defineEventHandler((event) =>
  verify(getRequestURL(event), event.context.cloudflare.env),
);
