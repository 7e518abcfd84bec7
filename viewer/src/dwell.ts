/** How long states lasted, and the number of transitions between each two of them. */
import type { Lane } from "./model.ts";
import { firstAtOrAfter, lastAtOrBefore } from "./search.ts";

/** One state within a range of time; times in ms. */
export interface Dwell {
  readonly name: string;
  /** The total time. */
  readonly total: number;
  readonly share: number;
  readonly visits: number;
  readonly median: number;
  readonly longest: number;
}

export interface Stay {
  readonly dwells: Dwell[];
  /** `matrix[from][to]` is the number of transitions; indices are those of `dwells`. */
  readonly matrix: number[][];
  readonly transitions: number;
}

/** Summarizes the part of a lane between two times. Segments are cut at the ends of the range; the state with the longest total time comes first. */
export function stay(lane: Lane, from: number, to: number): Stay {
  const begin = Math.max(0, lastAtOrBefore(lane.begin, lane.length, from));
  const end = firstAtOrAfter(lane.begin, lane.length, to, begin);
  const visits = lane.names.map((): number[] => []);
  const counts = lane.names.map(() => lane.names.map(() => 0));
  let transitions = 0;
  for (let index = begin; index < end; index += 1) {
    const first = Math.max(from, lane.begin[index] as number);
    const last = Math.min(to, lane.end[index] as number);
    if (last < first || (last === first && first !== (lane.begin[index] as number))) continue;
    const state = lane.state[index] as number;
    (visits[state] as number[]).push(last - first);
    const before = lane.state[index - 1];
    if (index === 0 || before === undefined || (lane.begin[index] as number) < from || before === state) continue;
    const row = counts[before] as number[];
    row[state] = (row[state] as number) + 1;
    transitions += 1;
  }
  return summary(lane.names, visits, counts, transitions, to - from);
}

function summary(names: string[], visits: number[][], counts: number[][], transitions: number, span: number): Stay {
  const order = names.map((_, state) => state).filter((state) => (visits[state] as number[]).length > 0);
  const dwells = order.map((state): Dwell => {
    const lengths = Float64Array.from(visits[state] as number[]).sort();
    const total = lengths.reduce((sum, length) => sum + length, 0);
    return {
      name: names[state] as string,
      total,
      share: span > 0 ? total / span : 0,
      visits: lengths.length,
      median: lengths[Math.floor((lengths.length - 1) / 2)] as number,
      longest: lengths[lengths.length - 1] as number,
    };
  });
  const sorted = dwells.map((dwell, index) => ({ dwell, state: order[index] as number })).sort((one, other) => other.dwell.total - one.dwell.total);
  return {
    dwells: sorted.map(({ dwell }) => dwell),
    matrix: sorted.map(({ state: row }) => sorted.map(({ state: column }) => (counts[row] as number[])[column] as number)),
    transitions,
  };
}
