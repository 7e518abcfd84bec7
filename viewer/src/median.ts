/** The median of many numbers, without sorting all of them. */

/** The median, or null if there are no numbers; if two are in the middle, the greater. Changes the order of `values`. */
export function median(values: Float64Array): number | null {
  if (values.length === 0) return null;
  const wanted = values.length >>> 1;
  let [from, to] = [0, values.length - 1];
  while (from < to) {
    const [low, high] = divide(values, from, to);
    if (wanted <= low) to = low;
    else if (wanted >= high) from = high;
    else break;
  }
  return values[wanted] as number;
}

/** Partitions a range around one of its values: smaller ones are moved to the front, up to the first returned index, larger ones to the end, from the second. */
function divide(values: Float64Array, from: number, to: number): [number, number] {
  const pivot = values[(from + to) >>> 1] as number;
  let [left, right] = [from, to];
  while (left <= right) {
    while ((values[left] as number) < pivot) left += 1;
    while ((values[right] as number) > pivot) right -= 1;
    if (left > right) break;
    const moved = values[left] as number;
    values[left] = values[right] as number;
    values[right] = moved;
    left += 1;
    right -= 1;
  }
  return [right, left];
}
