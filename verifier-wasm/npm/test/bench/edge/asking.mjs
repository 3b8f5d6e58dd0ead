// Asks a server of HTTP over connections that stay open, as a proxy in front of a Worker does.

import { Agent, request } from "node:http";

export class Asking {
  #agent = new Agent({ keepAlive: true, maxSockets: 64 });
  #url;

  constructor(url) {
    this.#url = url;
  }

  /** The status and the text of an answer. */
  ask(method, path) {
    return new Promise((resolve, reject) => {
      const sent = request(new URL(path, this.#url), { method, agent: this.#agent }, (answer) => {
        let text = "";
        answer.setEncoding("utf8");
        answer.on("data", (chunk) => (text += chunk));
        answer.once("end", () => resolve({ status: answer.statusCode, text }));
        answer.once("error", reject);
      });
      sent.once("error", reject);
      sent.end();
    });
  }

  end() {
    this.#agent.destroy();
  }
}
