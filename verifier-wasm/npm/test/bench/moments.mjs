// Statistics of values that are too many to be kept.

/** Mean and variance of a growing number of values (Welford). */
export class Moments {
  count = 0;
  mean = 0;
  #squares = 0;

  add(value) {
    this.count += 1;
    const difference = value - this.mean;
    this.mean += difference / this.count;
    this.#squares += difference * (value - this.mean);
  }

  get variance() {
    return this.#squares / (this.count - 1);
  }
}

/** Welch's t of two groups of values; 0 where there is too little to compare. */
export function welch(one, other) {
  if (Math.min(one.count, other.count) < 100) {
    return 0;
  }
  return (
    (one.mean - other.mean) / Math.sqrt(one.variance / one.count + other.variance / other.count)
  );
}
