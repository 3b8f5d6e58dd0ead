// The switches of the walk-through.

import { byId, say } from "./element.ts";
import type { Settings } from "./messages.ts";
import { post } from "./post.ts";

export function showSettings({ format, lifetime }: Settings): void {
  choose("format", format);
  choose("lifetime", String(lifetime));
  const table = byId<HTMLTableElement>("abilities");
  const column = [...table.querySelectorAll("thead th")].findIndex(
    (cell) => (cell as HTMLElement).dataset.format === format,
  );
  for (const row of table.rows) {
    for (const [at, cell] of [...row.cells].entries()) cell.classList.toggle("chosen", at === column);
  }
}

export function onSettings(): void {
  const note = byId("settings-note");
  const on = (id: string, change: (value: string) => [path: string, body: unknown, done: string]) => {
    byId(id).addEventListener("change", async (event) => {
      const [path, body, done] = change((event.target as HTMLInputElement).value);
      const { ok, message } = await post(path, body);
      note.classList.toggle("wrong", !ok);
      say(note, ok ? done : message);
    });
  };
  on("format", (format) => ["/demo/format", { format }, `New links are signed as ${format}.`]);
  on("lifetime", (seconds) => [
    "/demo/lifetime",
    { seconds: Number(seconds) },
    `New links live ${seconds} seconds.`,
  ]);
}

function choose(name: string, value: string): void {
  const input = document.querySelector<HTMLInputElement>(`input[name="${name}"][value="${value}"]`);
  if (input !== null) input.checked = true;
}
