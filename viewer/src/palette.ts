/** Colours by what they stand for; those of one plot or lane differ in lightness too, for eyes that do not tell hues apart. */

export type Theme = "light" | "dark";
type Pair = readonly [light: string, dark: string];

const CURVES: Record<string, Pair> = {
  congestion_window: ["#0a5cad", "#5cb2ff"],
  bytes_in_flight: ["#c65a00", "#ffb04d"],
  slow_start_threshold: ["#7d3c98", "#d7a0ea"],
  pacing_rate: ["#0a5cad", "#5cb2ff"],
  delivery_rate: ["#7d3c98", "#d7a0ea"],
  goodput: ["#c65a00", "#ffb04d"],
  smoothed_rtt: ["#0a5cad", "#5cb2ff"],
  latest_rtt: ["#c65a00", "#ffb04d"],
  minimum_rtt: ["#0b7a5b", "#45d6a8"],
  one_way_delay: ["#7d3c98", "#d7a0ea"],
};
const OTHER_CURVES: readonly Pair[] = [
  ["#a3195b", "#ff8fbe"],
  ["#7a6200", "#e6cf5a"],
  ["#00727f", "#4fd0e0"],
  ["#46505e", "#bcc6d4"],
  ["#7b4a2d", "#d9a98c"],
];

const STATES: readonly [pattern: RegExp, colours: Pair][] = [
  [/persistent/, ["#d1495b", "#b23347"]],
  [/recovery|^loss/, ["#ffab7a", "#b0531b"]],
  [/slow_start|startup/, ["#8cc4ff", "#1d5f9e"]],
  [/probe_?bw_?up/, ["#7fd0dd", "#14666f"]],
  [/probe_?bw_?refill/, ["#d5e3a0", "#59681c"]],
  [/probe_?bw_?down/, ["#cdd3dc", "#4a5565"]],
  [/avoidance|probe_?bw|cruise/, ["#b7e4cd", "#1c5f47"]],
  [/drain|probe_?rtt/, ["#d9c3f2", "#5d4087"]],
  [/congestion_control|window/, ["#ffab7a", "#b0531b"]],
  [/pacing|pacer/, ["#8cc4ff", "#1d5f9e"]],
  [/amplification/, ["#ffe07d", "#7b650f"]],
  [/flow_control|stream_id/, ["#d9c3f2", "#5d4087"]],
  [/application|app_limited|^idle|no_data/, ["#dde1e8", "#3d4653"]],
];
const OTHER_STATES: readonly Pair[] = [
  ["#b7e4cd", "#1c5f47"],
  ["#ffe07d", "#7b650f"],
  ["#8cc4ff", "#1d5f9e"],
  ["#f4bfd6", "#7d2d54"],
  ["#d9c3f2", "#5d4087"],
  ["#c9d6a3", "#55661f"],
];

const MARKS: Record<string, Pair> = {
  lost: ["#b3261e", "#ff8a7a"],
  pto: ["#7d3c98", "#d7a0ea"],
  congestion_event: ["#c65a00", "#ffb04d"],
  spurious: ["#0b7a5b", "#45d6a8"],
  ce: ["#0a5cad", "#5cb2ff"],
  never_arrived: ["#a3195b", "#ff8fbe"],
  arrived_after_all: ["#7a6200", "#e6cf5a"],
};

/** Names without a colour of their own take the next one, and keep it. */
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

/** Where a curve comes among those of its plot: the one that matters most is named first and drawn on top. */
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
