// The switches of the walk-through.

import { Asked } from "./asked.ts";
import { byId, say } from "./element.ts";
import type { Live } from "./live.ts";
import type { Settings } from "./messages.ts";

interface Switch {
  /** The name of its radio buttons, and the id of the element around them. */
  readonly name: keyof Settings & ("format" | "lifetime");
  readonly body: (value: string) => unknown;
  /** What to say once it is done. */
  readonly done: (value: string) => string;
  readonly drawn?: (value: string) => void;
}

const SWITCHES: readonly Switch[] = [
  {
    name: "format",
    body: (format) => ({ format }),
    done: (format) => `New links are signed as ${format}.`,
    drawn: markAbilities,
  },
  {
    name: "lifetime",
    body: (seconds) => ({ seconds: Number(seconds) }),
    done: (seconds) => `New links live ${seconds} seconds.`,
  },
];

/** Shows the settings, and changes them when somebody chooses another one. */
export function onSettings(live: Live): void {
  const note = byId("settings-note");
  for (const { name, body, done, drawn } of SWITCHES) {
    const group = byId(name);
    const setting = new Asked<string>(
      (value) => {
        choose(name, value);
        drawn?.(value);
      },
      (value) => live.ask(`/demo/${name}`, body(value)),
    );
    live.on("settings", (settings) => setting.hear(String(settings[name])));
    group.addEventListener("change", async (event) => {
      const reply = await setting.want((event.target as HTMLInputElement).value);
      if (reply === undefined) return;
      note.classList.toggle("wrong", !reply.ok);
      say(note, reply.ok ? done(setting.value ?? "") : reply.message);
    });
  }
}

function choose(name: string, value: string): void {
  const input = document.querySelector<HTMLInputElement>(`input[name="${name}"][value="${value}"]`);
  if (input !== null) input.checked = true;
}

/** Marks the column of the format in the table of who can judge what. */
function markAbilities(format: string): void {
  const table = byId<HTMLTableElement>("abilities");
  const column = [...table.querySelectorAll("thead th")].findIndex(
    (cell) => (cell as HTMLElement).dataset.format === format,
  );
  for (const row of table.rows) {
    for (const [at, cell] of [...row.cells].entries())
      cell.classList.toggle("chosen", at === column);
  }
}
