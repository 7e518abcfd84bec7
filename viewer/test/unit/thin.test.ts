import assert from "node:assert/strict";
import { test } from "node:test";
import { Extremes, thin, type Samples } from "../../src/thin.ts";

function samples(values: number[]): Samples {
  return { time: Float64Array.from(values.keys()), value: Float64Array.from(values), length: values.length };
}

function noise(length: number, seed: number): number[] {
  let state = seed;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state % 1000;
  });
}

const drawn = (thinned: { value: Float64Array; length: number }): number[] => [...thinned.value.subarray(0, thinned.length)];

test("few samples are all kept, with one more on each side", () => {
  const thinned = thin(samples([5, 1, 7, 2, 9, 3]), new Extremes(), 1.5, 3.5, 100);
  assert.deepEqual(drawn(thinned), [1, 7, 2, 9]);
  assert.equal(thinned.dense, false);
  assert.deepEqual([thinned.low, thinned.high], [1, 9]);
});

test("a spike and a dip of one sample among a million are kept, wherever they are", () => {
  const time = new Float64Array(1_000_000).map((_, index) => index);
  for (const place of [0, 1, 63, 64, 65, 499_999, 777_777, 999_998, 999_999]) {
    const value = new Float64Array(1_000_000).fill(100);
    value[place] = 5000;
    value[(place + 500_017) % value.length] = -3;
    const thinned = thin({ time, value, length: value.length }, new Extremes(), 0, 999_999, 800);
    assert.ok(thinned.dense && thinned.length <= 800 * 4 + 16, `${thinned.length} points`);
    assert.ok(drawn(thinned).includes(5000), `spike at ${place}`);
    assert.ok(drawn(thinned).includes(-3), `dip of ${place}`);
    assert.deepEqual([thinned.low, thinned.high], [-3, 5000]);
  }
});

test("each pixel column keeps its extremes, its first and its last sample, in order of time", () => {
  const all = samples(noise(50_000, 9));
  const [from, to, columns] = [10_000.5, 37_000.25, 333];
  const thinned = thin(all, new Extremes(), from, to, columns);
  const width = (to - from) / columns;
  const kept = new Set(thinned.time.subarray(0, thinned.length));
  for (let column = Math.floor(from / width); (column + 1) * width < to; column += 1) {
    const first = Math.ceil(Math.max(column * width, from));
    const inside = Array.from({ length: Math.ceil((column + 1) * width) - first }, (_, index) => first + index);
    const values = inside.map((time) => all.value[time] as number);
    const has = (value: number): boolean => inside.some((time) => all.value[time] === value && kept.has(time));
    assert.ok(has(Math.min(...values)) && has(Math.max(...values)), `column ${column}`);
    assert.ok(kept.has(inside[0] as number) && kept.has(inside.at(-1) as number), `column ${column}`);
  }
  for (let index = 1; index < thinned.length; index += 1) assert.ok((thinned.time[index] as number) > (thinned.time[index - 1] as number));
});

test("the extremes of any range are those that a linear search finds", () => {
  const all = samples(noise(5000, 4));
  const extremes = new Extremes();
  extremes.extend(all.value, all.length);
  for (let begin = 0; begin < 5000; begin += 37) {
    for (let end = begin + 1; end <= 5000; end += 211) {
      const [low, high] = extremes.between(all.value, begin, end);
      const part = all.value.subarray(begin, end);
      assert.equal(all.value[low], part.reduce((one, other) => Math.min(one, other)));
      assert.equal(all.value[high], part.reduce((one, other) => Math.max(one, other)));
    }
  }
});

test("samples that are added later are included", () => {
  const value = new Float64Array(1000).fill(1);
  const extremes = new Extremes();
  extremes.extend(value, 100);
  value[130] = 8;
  extremes.extend(value, 1000);
  assert.equal(extremes.between(value, 0, 1000)[1], 130);
});

test("NaN is skipped, even if there is nothing else", () => {
  const values = new Array<number>(1000).fill(NaN);
  assert.deepEqual(new Extremes().between(Float64Array.from(values), 0, 1000), [-1, -1]);
  values[500] = 3;
  const thinned = thin(samples(values), new Extremes(), 0, 999, 10);
  assert.deepEqual([thinned.low, thinned.high], [3, 3]);
  assert.ok(drawn(thinned).includes(3));
});

test("a range before or after all samples shows the nearest sample", () => {
  const all = samples([4, 5, 6]);
  assert.deepEqual(drawn(thin(all, new Extremes(), 10, 20, 5)), [6]);
  assert.deepEqual(drawn(thin(all, new Extremes(), -20, -10, 5)), [4]);
  assert.equal(thin(samples([]), new Extremes(), 0, 1, 5).length, 0);
});

test("panning by whole columns does not change what is drawn in a column", () => {
  const all = samples(noise(100_000, 2));
  const width = 50;
  const one = thin(all, new Extremes(), 10_000, 10_000 + 400 * width, 400);
  const other = thin(all, new Extremes(), 10_000 + 40 * width, 10_000 + 440 * width, 400);
  const shared = (thinned: typeof one): number[] => [...thinned.time.subarray(0, thinned.length)].filter((time) => time > 13_000 && time < 29_000);
  assert.deepEqual(shared(one), shared(other));
});
