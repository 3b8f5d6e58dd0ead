// What stands behind the edge, `mailroom serve` and the origin in one: it keeps to their interface,
// says what the test wants said, and refuses whatever is not asked as they want to be asked.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

import { KEPT_OPEN } from "../../verifier-wasm/npm/test/waiting.mjs";

export class RecordingOrigin {
  password = randomBytes(16).toString("hex");
  bearer = `mrst_${randomBytes(32).toString("base64url")}`;
  /** Every call that was asked rightly. */
  requests = [];
  /** What was wrong with each of the others. */
  complaints = [];
  /** What the last object kept from which a try was taken back, as it says itself. */
  kept;
  #held = [];
  #done = [];
  #server;
  #answer = "ok";
  #faults = [];

  static async start() {
    const origin = new RecordingOrigin();
    origin.#server = createServer(
      KEPT_OPEN,
      (request, response) => void origin.#serve(request, response),
    );
    origin.#server.listen(0, "127.0.0.1");
    await once(origin.#server, "listening");
    return origin;
  }

  get address() {
    return `127.0.0.1:${this.#server.address().port}`;
  }

  /**
   * What comes next: a verdict; `away`, an origin whose database is; `silent`, one that hangs up;
   * `failing`, status 500; `nonsense`; `held`, one that answers when it is told what.
   *
   * @param faults what else shall fail, for those who ask at /faults
   */
  now(answer, ...faults) {
    this.#answer = answer;
    this.#faults = faults;
  }

  /** How many wait for an answer. */
  get held() {
    return this.#held.length;
  }

  /** How often an object has been through with this. */
  done(pathname) {
    return this.#done.filter((one) => one === pathname).length;
  }

  /** Answers all who wait. */
  answerHeld(answer) {
    for (const [request, response] of this.#held.splice(0)) say(answer, request, response);
  }

  end() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #serve(request, response) {
    const { pathname, searchParams } = new URL(request.url, "http://origin");
    if (pathname === "/kept") this.kept = searchParams.get("what");
    if (pathname === "/done") this.#done.push(searchParams.get("pathname"));
    if (["/faults", "/kept", "/done"].includes(pathname)) {
      response.end(JSON.stringify(this.#faults));
      return;
    }
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method, url, headers } = request;
    const text = Buffer.concat(chunks).toString();
    const body = url === "/v1/redeem" ? this.#judge(method, headers, text) : {};
    if (body === undefined) {
      send(response, 422, { message: "That is not how to ask." });
      return;
    }
    this.requests.push({ url, body });
    if (this.#answer === "held") this.#held.push([request, response]);
    else say(this.#answer, request, response);
  }

  /** The body of a call as it should be, and nothing of any other. */
  #judge(method, headers, text) {
    const { secret, action, code, ...others } = JSON.parse(text);
    const password = action === "invite" ? this.password : this.bearer;
    const faults = {
      method: method !== "POST",
      type: headers["content-type"] !== "application/json",
      password: headers.authorization !== `Bearer ${password}`,
      secret: !/^[0-9a-f]{64}$/.test(secret),
      action: !["activate", "recover", "invite"].includes(action),
      code: action === "recover" ? !/^[0-9]{5}$/.test(code) : code !== undefined,
      others: Object.keys(others).length > 0,
    };
    const found = Object.keys(faults).filter((name) => faults[name]);
    if (found.length === 0) return { secret, action, code };
    this.complaints.push(found.join());
    return undefined;
  }
}

function say(answer, request, response) {
  if (answer === "silent") request.socket.destroy();
  else if (answer === "away")
    send(response, 503, { detail: "The database is away.", code: "MAILROOM_AWAY" });
  else if (answer === "ok") send(response, 200, { verdict: "ok", token: "7", subject_id: "3" });
  else if (answer === "failing") send(response, 500, { message: "Something went wrong here." });
  else if (answer === "nonsense") send(response, 200, { verdict: "constructor" });
  else send(response, 200, { verdict: answer });
}

function send(response, status, body) {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(body));
}
