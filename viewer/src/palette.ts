/** Colors by meaning, one meaning each: orange is only used for recovery and for the events that start it. Colors of one plot or lane also differ in lightness, for readers who cannot distinguish the hues. */

export type Theme = "light" | "dark";
type Pair = readonly [light: string, dark: string];

export const CURVES: Record<string, Pair> = {
  congestion_window: ["#0a5cad", "#5cb2ff"],
  bytes_in_flight: ["#0b7a5b", "#45d6a8"],
  slow_start_threshold: ["#7d3c98", "#d7a0ea"],
  pacing_rate: ["#00727f", "#4fd0e0"],
  delivery_rate: ["#6b5c00", "#d8c04a"],
  goodput: ["#3d7a1c", "#9adf6e"],
  smoothed_rtt: ["#3f3fb0", "#a5a5ff"],
  latest_rtt: ["#66717f", "#8e9aaa"],
  minimum_rtt: ["#8e24aa", "#e08cf5"],
  one_way_delay: ["#5b6b00", "#c3d14f"],
};
export const OTHER_CURVES: readonly Pair[] = [
  ["#b0177f", "#ff7fd0"],
  ["#857100", "#eadb7a"],
  ["#1b6e8c", "#7cc9e6"],
  ["#46505e", "#bcc6d4"],
  ["#4a6b1f", "#b9d98c"],
];

export const STATES: readonly [pattern: RegExp, colours: Pair][] = [
  [/persistent/, ["#d1495b", "#b23347"]],
  [/recovery|^loss/, ["#ffab7a", "#b0531b"]],
  [/slow_start|startup/, ["#cfe88a", "#4f6312"]],
  [/probe_?bw_?up/, ["#86d9b4", "#1a6e52"]],
  [/probe_?bw_?refill/, ["#d6efe6", "#2d4a41"]],
  [/probe_?bw_?down/, ["#cdd3dc", "#4a5565"]],
  [/avoidance|probe_?bw|cruise/, ["#b7e4cd", "#1c5f47"]],
  [/drain|probe_?rtt/, ["#d9c3f2", "#5d4087"]],
  [/congestion_control|window/, ["#a9c9f0", "#1c4f86"]],
  [/pacing|pacer/, ["#a5dde6", "#135a66"]],
  [/amplification/, ["#ffe07d", "#7b650f"]],
  [/flow_control|stream_id/, ["#f4bfd6", "#7d2d54"]],
  [/application|app_limited|^idle|no_data/, ["#dde1e8", "#3d4653"]],
];
export const OTHER_STATES: readonly Pair[] = [
  ["#c3c7f2", "#454b8f"],
  ["#ded8b0", "#5c5730"],
  ["#b9d6d0", "#33564f"],
  ["#e3c9dc", "#6b4460"],
];

export const MARKS: Record<string, Pair> = {
  lost: ["#b3261e", "#ff8a7a"],
  lost_counted: ["#b3261e", "#ff8a7a"],
  pto: ["#5e35b1", "#b9a0ff"],
  congestion_event: ["#c65a00", "#ffb04d"],
  spurious: ["#558b2f", "#b5e07a"],
  ce: ["#00796b", "#5fe0cf"],
  never_arrived: ["#6e1410", "#ffb4a8"],
  arrived_after_all: ["#7a6200", "#e6cf5a"],
};

/** Names without their own color are assigned the next free one, and keep it. */
const taken = new Map<string, Pair>();

function pick(kind: string, name: string, from: readonly Pair[]): Pair {
  const key = `${kind} ${name}`;
  let pair = taken.get(key);
  if (pair === undefined) {
    const before = [...taken.keys()].filter((other) => other.startsWith(`${kind} `)).length;
    pair = from[before % from.length] as Pair;
    taken.set(key, pair);
  }
  return pair;
}

const of = (pair: Pair, theme: Theme): string => pair[theme === "dark" ? 1 : 0];

/** The rank of a curve among those of its plot: the most important one is named first and drawn on top. */
export function curveRank(id: string): number {
  const rank = Object.keys(CURVES).indexOf(id);
  return rank === -1 ? Number.MAX_SAFE_INTEGER : rank;
}

export function curveColour(id: string, theme: Theme): string {
  return of(CURVES[id] ?? pick("curve", id, OTHER_CURVES), theme);
}

export function stateColour(name: string, theme: Theme): string {
  const known = STATES.find(([pattern]) => pattern.test(name.toLowerCase().replaceAll(" ", "_")));
  return of(known?.[1] ?? pick("state", name, OTHER_STATES), theme);
}

export function markColour(id: string, theme: Theme): string {
  return of(MARKS[id] ?? pick("mark", id, OTHER_CURVES), theme);
}
