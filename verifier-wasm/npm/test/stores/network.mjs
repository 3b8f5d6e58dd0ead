// What lies between a client that is called in the same process and its server: requests and
// answers are lost at it, and requests arrive twice.

export class Network {
  #fault;
  #refusing = false;
  #lost = [];
  commands = 0;
  cuts = 0;

  /** As `cut` of a CuttingProxy. */
  cut(number, moment, { refuseAfterwards = false } = {}) {
    this.#fault = { number, moment, refuseAfterwards };
    this.commands = 0;
    this.cuts = 0;
  }

  /** Delivers the requests once more whose answers were lost. */
  async accept() {
    this.#refusing = false;
    for (const send of this.#lost.splice(0)) await this.pass(send);
  }

  /** What `send` answers, unless its request or its answer is lost. */
  async pass(send) {
    if (this.#refusing) throw new Error("the network is down");
    this.commands += 1;
    const fault = this.commands === this.#fault?.number ? this.#fault : undefined;
    if (fault?.moment !== "before") {
      const answer = await send();
      if (fault === undefined) return answer;
      this.#lost.push(send);
    }
    this.cuts += 1;
    this.#refusing = fault.refuseAfterwards;
    throw new Error("the connection was cut");
  }
}
