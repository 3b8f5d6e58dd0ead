// A line of the collector: `action,email,login,token,code` for each token, without quotes.

/** The fields of one token. */
export interface Item {
  readonly action: "activate" | "recover";
  readonly email: string;
  readonly login: string;
  readonly token: string;
  readonly code: string;
}

export function parseLine(line: string): Item[] {
  const fields = line.split(",");
  if (fields.length % 5 !== 0)
    throw new Error(`a line has ${fields.length} fields, not five a token: ${line}`);
  return Array.from({ length: fields.length / 5 }, (_, index) => {
    const [number, email, login, token, code] = fields.slice(5 * index, 5 * index + 5) as Fields;
    if (number !== "1" && number !== "2")
      throw new Error(`a line has the action ${number}: ${line}`);
    return { action: number === "1" ? "activate" : "recover", email, login, token, code };
  });
}

type Fields = [string, string, string, string, string];
