/** Finds states that alternate too fast to be drawn one by one. */
import { count, words } from "./format.ts";
import type { Lane } from "./model.ts";

/** The segments `begin` to `end` (exclusive) of a lane, drawn one by one, or together if they alternate (`flaps`). */
export interface Run {
  readonly begin: number;
  readonly end: number;
  readonly flaps: boolean;
}

/** The minimum number of consecutive short segments that are drawn together. */
const LEAST = 6;
/** The maximum number of states that are named; an ellipsis stands for the others. */
const NAMED = 2;

/** Divides segments of a lane into runs; a segment is short if it lasts less than `shortest` ms. */
export function runsOf(lane: Lane, begin: number, end: number, shortest: number): Run[] {
  const runs: Run[] = [];
  let from = begin;
  while (from < end) {
    const flaps = isShort(lane, from, shortest);
    let to = from + 1;
    while (to < end && isShort(lane, to, shortest) === flaps) to += 1;
    const isRun = flaps && to - from >= LEAST;
    const last = runs.at(-1);
    if (!isRun && last !== undefined && !last.flaps) runs[runs.length - 1] = { ...last, end: to };
    else runs.push({ begin: from, end: to, flaps: isRun });
    from = to;
  }
  return runs;
}

function isShort(lane: Lane, index: number, shortest: number): boolean {
  return (lane.end[index] as number) - (lane.begin[index] as number) < shortest;
}

/** The possible labels of a run that flaps, the longest first. */
export function labelsOf(lane: Lane, { begin, end }: Run): string[] {
  const times = new Map<number, number>();
  for (let index = begin; index < end; index += 1) {
    const state = lane.state[index] as number;
    times.set(state, (times.get(state) ?? 0) + 1);
  }
  const ranked = [...times].sort(([, one], [, other]) => other - one).map(([state]) => words(lane.names[state] ?? "?"));
  const changes = count(end - begin - 1);
  const named = ranked.slice(0, NAMED).join(" ⇄ ") + (ranked.length > NAMED ? " …" : "");
  return [`${changes} changes: ${named}`, `${changes} changes`, `${changes}×`];
}
