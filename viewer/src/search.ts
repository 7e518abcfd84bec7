/** Binary search in ascending columns. */

/** A column of numbers that is read by index, such as any typed array. */
export interface Column {
  readonly [index: number]: number;
}

/** The first index in `from..length` whose value is at least `wanted`, or `length`. */
export function firstAtOrAfter(column: Column, length: number, wanted: number, from = 0): number {
  let low = from;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((column[middle] as number) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The last index below `length` whose value is at most `wanted`, or -1. */
export function lastAtOrBefore(column: Column, length: number, wanted: number): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((column[middle] as number) <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
