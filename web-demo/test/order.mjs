// The order in which groups run: as they are listed, from behind, or at random.

/** @param order nothing, `reverse`, or a number: the same one gives the same order again */
export function ordered(groups, order) {
  if (order === undefined) return groups;
  if (order === "reverse") return groups.toReversed();
  if (!/^\d+$/.test(order)) throw new Error(`--order is reverse or a number, not ${order}`);
  const shuffled = [...groups];
  const random = numbers(Number(order));
  for (let at = shuffled.length - 1; at > 0; at -= 1) {
    const other = random() % (at + 1);
    [shuffled[at], shuffled[other]] = [shuffled[other], shuffled[at]];
  }
  return shuffled;
}

/** Numbers of 32 bits that follow from a seed (xorshift). */
function numbers(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state;
  };
}
