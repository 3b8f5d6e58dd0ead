// Reads what a request carries, and no more of it than can be meant.

/** The text of the body, or nothing if it has more than `most` bytes. */
export async function readBody(request: Request, most: number): Promise<string | undefined> {
  if (Number(request.headers.get("Content-Length") ?? 0) > most) return undefined;
  if (request.body === null) return "";
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body as ReadableStream<Uint8Array>) {
    size += chunk.length;
    if (size > most) return undefined;
    chunks.push(chunk);
  }
  return new TextDecoder().decode(await new Blob(chunks).arrayBuffer());
}

/** Whether the body is said to be of this type, whatever the parameters. */
export function isOfType(request: Request, type: string): boolean {
  const [said = ""] = (request.headers.get("Content-Type") ?? "").split(";");
  return said.trim().toLowerCase() === type;
}
