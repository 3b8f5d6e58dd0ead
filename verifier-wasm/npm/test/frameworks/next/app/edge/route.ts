import { verify } from "../../verify.js";

export const runtime = "edge";

export async function GET(request: Request): Promise<Response> {
  const { SHARED_KEY, PUBLIC_KEY } = process.env;
  return Response.json(await verify(new URL(request.url), { SHARED_KEY, PUBLIC_KEY }));
}
