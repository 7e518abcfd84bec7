/**
 * Thins samples without changing the picture: the first, minimum, maximum and last sample of each pixel column are kept, so that a spike
 * of one sample in a million is visible at every zoom.
 */
import { firstAtOrAfter, lastAtOrBefore } from "./search.ts";

/** Samples in the order of their times; the arrays may be longer than `length`. */
export interface Samples {
  readonly time: Float64Array;
  readonly value: Float64Array;
  readonly length: number;
}

/** The samples to draw, and the minimum and maximum in view. */
export interface Thinned {
  readonly time: Float64Array;
  readonly value: Float64Array;
  readonly length: number;
  /** Minimum and maximum in view; `Infinity` and `-Infinity` if there are no values. */
  readonly low: number;
  readonly high: number;
  /** Whether samples were omitted. */
  readonly dense: boolean;
}

const BLOCK = 64;

/** The indices of the minimum and maximum of each full block of 64 samples, updated as samples arrive. */
export class Extremes {
  private low = new Uint32Array(0);
  private high = new Uint32Array(0);
  private blocks = 0;

  /** Processes blocks that have become full. */
  extend(value: Float64Array, length: number): void {
    const full = Math.floor(length / BLOCK);
    if (full <= this.blocks) return;
    if (full > this.low.length) {
      const room = Math.max(full, this.low.length * 2);
      this.low = grown(this.low, room);
      this.high = grown(this.high, room);
    }
    for (let block = this.blocks; block < full; block += 1) {
      const found = scan(value, block * BLOCK, (block + 1) * BLOCK, -1, -1);
      this.low[block] = found[0];
      this.high[block] = found[1];
    }
    this.blocks = full;
  }

  /** The indices of the minimum and the maximum in `begin..end` (not empty); -1 if all are NaN. */
  between(value: Float64Array, begin: number, end: number): [number, number] {
    const first = Math.ceil(begin / BLOCK);
    const last = Math.min(Math.floor(end / BLOCK), this.blocks);
    if (first >= last) return scan(value, begin, end, -1, -1);
    let [low, high] = scan(value, begin, first * BLOCK, -1, -1);
    for (let block = first; block < last; block += 1) {
      low = lesser(value, low, this.low[block] as number);
      high = greater(value, high, this.high[block] as number);
    }
    return scan(value, last * BLOCK, end, low, high);
  }
}

/** The index that means "none" in a Uint32Array. */
const NONE = 0xffffffff;

function lesser(value: Float64Array, one: number, other: number): number {
  if (other === NONE || other === -1) return one;
  return one === -1 || (value[other] as number) < (value[one] as number) ? other : one;
}

function greater(value: Float64Array, one: number, other: number): number {
  if (other === NONE || other === -1) return one;
  return one === -1 || (value[other] as number) > (value[one] as number) ? other : one;
}

function scan(value: Float64Array, begin: number, end: number, low: number, high: number): [number, number] {
  let least = low === -1 ? Infinity : (value[low] as number);
  let greatest = high === -1 ? -Infinity : (value[high] as number);
  for (let index = begin; index < end; index += 1) {
    const here = value[index] as number;
    if (here < least) {
      least = here;
      low = index;
    }
    if (here > greatest) {
      greatest = here;
      high = index;
    }
  }
  return [low, high];
}

function grown(array: Uint32Array, room: number): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(room);
  larger.set(array);
  return larger;
}

/** Collects points in order. */
class Points {
  readonly time: Float64Array;
  readonly value: Float64Array;
  length = 0;
  private last = -1;

  constructor(
    private readonly samples: Samples,
    room: number,
  ) {
    this.time = new Float64Array(room);
    this.value = new Float64Array(room);
  }

  /** Adds a sample, unless it was the last one added. */
  push(index: number): void {
    if (index === this.last) return;
    this.last = index;
    this.time[this.length] = this.samples.time[index] as number;
    this.value[this.length] = this.samples.value[index] as number;
    this.length += 1;
  }
}

/**
 * Selects the points of `samples` to draw between the times `from` and `to` on `columns` pixel columns. One sample on each side is included, so that
 * lines reach the edges. Columns start at multiples of their width, so that the picture does not flicker while it is moved.
 */
export function thin(samples: Samples, extremes: Extremes, from: number, to: number, columns: number): Thinned {
  extremes.extend(samples.value, samples.length);
  const begin = Math.max(0, lastAtOrBefore(samples.time, samples.length, from));
  const end = Math.min(samples.length, firstAtOrAfter(samples.time, samples.length, to) + 1);
  if (end <= begin) return { time: new Float64Array(0), value: new Float64Array(0), length: 0, low: Infinity, high: -Infinity, dense: false };
  const [least, greatest] = extremes.between(samples.value, begin, end);
  const low = least === -1 ? Infinity : (samples.value[least] as number);
  const high = greatest === -1 ? -Infinity : (samples.value[greatest] as number);
  if (end - begin <= columns) {
    const time = samples.time.subarray(begin, end);
    return { time, value: samples.value.subarray(begin, end), length: end - begin, low, high, dense: false };
  }
  const points = pick(samples, extremes, begin, end, from, (to - from) / columns, columns);
  return { time: points.time, value: points.value, length: points.length, low, high, dense: true };
}

function pick(samples: Samples, extremes: Extremes, begin: number, end: number, from: number, width: number, columns: number): Points {
  const points = new Points(samples, (columns + 4) * 4);
  const origin = Math.floor(from / width);
  points.push(begin);
  let index = begin + 1;
  for (let column = 0; column <= columns && index < end - 1; column += 1) {
    const next = firstAtOrAfter(samples.time, end - 1, (origin + column + 1) * width, index);
    if (next === index) continue;
    const [low, high] = extremes.between(samples.value, index, next);
    points.push(index);
    if (low !== -1) points.push(Math.min(low, high));
    if (high !== -1) points.push(Math.max(low, high));
    points.push(next - 1);
    index = next;
  }
  points.push(end - 1);
  return points;
}
