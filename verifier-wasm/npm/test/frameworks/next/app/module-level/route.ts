import { createVerifier } from "mailroom-verifier";

const verifier = createVerifier({ keys: () => process.env.SHARED_KEY });

export function GET(request: Request): Response {
  const { searchParams } = new URL(request.url);
  const token = searchParams.get("shared") ?? "";
  return Response.json(verifier.tryVerify(token, { action: "activate" }).ok);
}
