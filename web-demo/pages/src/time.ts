// Times as people read them.

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

/** @param milliseconds since the Unix epoch */
export function clock(milliseconds: number): string {
  return CLOCK.format(milliseconds);
}

/**
 * How long until then: `12:07`, or nothing if it is over.
 *
 * @param until seconds since the Unix epoch
 */
export function left(until: number): string | undefined {
  const seconds = Math.ceil(until - Date.now() / 1000);
  if (seconds <= 0) return undefined;
  const days = Math.floor(seconds / 86_400);
  if (days > 0) return `${days.toLocaleString("en")} days`;
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const shown = parts[0] === 0 ? parts.slice(1) : parts;
  return shown
    .map((part, at) => (at === 0 ? String(part) : String(part).padStart(2, "0")))
    .join(":");
}
