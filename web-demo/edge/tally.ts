// What this isolate has seen, for the page that shows the flow. workerd on one machine runs one
// isolate; on Cloudflare there are many, and such numbers belong into Analytics Engine.

export const tally = {
  /** Links that were opened and are genuine as far as the edge can tell. */
  opened: 0,
  /** Links that the guard let through and the database used. */
  verified: 0,
  /** Links refused here, by the code of the error. */
  refused: {} as Record<string, number>,
  /** Calls that went on behind the edge to redeem a link. */
  calls: 0,
};

export function countRefusal(reason: string): void {
  tally.refused[reason] = (tally.refused[reason] ?? 0) + 1;
}
