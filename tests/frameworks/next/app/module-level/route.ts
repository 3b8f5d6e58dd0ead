import { createVerifier } from "mailroom-verifier";

const verifier = createVerifier({ keys: () => process.env.SHARED_KEY });

export function GET(request: Request): Response {
  const { searchParams } = new URL(request.url);
  return Response.json(verifier.tryVerify(searchParams.get("shared") ?? "", { action: "activate" }).ok);
}
