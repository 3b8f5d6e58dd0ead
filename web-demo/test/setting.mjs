// Runs a group in the state in which every group begins, whatever the ones before it did and
// wherever they failed.

import { until } from "../../verifier-wasm/npm/test/waiting.mjs";

export class Setting {
  #scene;
  /** What was prepared for a group, or why that failed. */
  #prepared = new Map();
  /**
   * Pages that belong to a group that is still to come, and the first one, without which the
   * browser would end.
   */
  #kept;

  constructor(scene) {
    this.#scene = scene;
    this.#kept = scene.visitor.pages;
  }

  /** Begins what takes a minute. A failure is one of the group. */
  async prepare(group) {
    if (group.prepare === undefined) return;
    const { visitor } = this.#scene;
    await this.#begin(group);
    try {
      this.#prepared.set(group, { value: await group.prepare(this.#scene) });
      this.#kept = visitor.pages;
    } catch (error) {
      this.#prepared.set(group, { error });
      await visitor.closeAllBut(this.#kept);
    }
  }

  async run(group) {
    const { visitor } = this.#scene;
    const { value, error } = this.#prepared.get(group) ?? {};
    try {
      if (error !== undefined) throw error;
      await this.#begin(group);
      const results = await group.work(this.#scene, value);
      const complaints = visitor.complaints.splice(0);
      const name = "no page complained, left the machine or kept a token in its address";
      return [
        ...results,
        complaints.length === 0 ? { name } : { name, error: complaints.join("\n") },
      ];
    } finally {
      // A group that failed leaves its pages open, each of which holds a connection.
      await visitor.closeAllBut(this.#kept);
    }
  }

  async #begin({ outage = false }) {
    const { visitor, demo } = this.#scene;
    visitor.complaints.splice(0);
    visitor.outage = outage;
    demo.goOn();
    await until("every part running, with the settings of the start", async () => {
      try {
        await demo.change("collector", { run: true });
        await demo.change("format", { format: "v3" });
        const state = await demo.change("lifetime", { seconds: 900 });
        const states = Object.values(state.parts);
        return (
          state.settings.format === "v3" &&
          states.length === 6 &&
          states.every((part) => part === "up")
        );
      } catch {
        // The edge is being started.
        return false;
      }
    });
  }
}
