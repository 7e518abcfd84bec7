/** The rows of lanes, and their heights. */
import { words } from "./format.ts";
import { Lane, type Marks } from "./model.ts";
import type { Finding } from "./protocol.ts";
import type { Shown } from "./overlay.ts";

interface Place {
  readonly shown: Shown;
  readonly label: string;
  readonly title: string;
  readonly height: number;
  /** The space above. */
  readonly gap: number;
}

export type Row = Place &
  ({ readonly kind: "states"; readonly lane: Lane } | { readonly kind: "marks"; readonly marks: Marks } | { readonly kind: "findings"; readonly findings: Finding[] });

const LABELS: Record<string, string> = {
  congestion_state: "state",
  blocked: "blocked",
  suppressors: "no growth",
  lost: "lost",
  lost_counted: "lost",
  pto: "PTO",
  congestion_event: "event",
  spurious: "spurious",
  ce: "CE",
  never_arrived: "missing",
  arrived_after_all: "not lost",
};

/** The rows of all traces: the same lane of two traces is shown one below the other. */
export function rowsOf(shown: Shown[]): Row[] {
  const findings = shown.filter(({ trace }) => trace.findings.length > 0).map((one, index): Row => ({ kind: "findings", findings: one.trace.findings, ...place(one, "findings", "Findings", 10, index === 0 ? 4 : 2) }));
  const lanes = unique(shown.flatMap(({ trace }) => trace.lanes.map(({ id }) => id))).flatMap((id) =>
    shown.flatMap((one, index) => one.trace.lanes.filter((lane) => lane.id === id).flatMap((lane) => laneRows(one, lane, index === 0 ? 5 : 1))),
  );
  const marks = unique(shown.flatMap(({ trace }) => trace.marks.filter(({ length }) => length > 0).map(({ id }) => id))).flatMap((id) =>
    shown.flatMap((one, index) =>
      one.trace.marks
        .filter((found) => found.id === id)
        .map((found): Row => ({ kind: "marks", marks: found, ...place(one, LABELS[id] ?? found.title, `${found.title}: ${found.total}`, 11, index === 0 ? 4 : 1) })),
    ),
  );
  return [...findings, ...lanes, ...marks];
}

function place(shown: Shown, label: string, title: string, height: number, gap: number): Place {
  return { shown, label: shown.tag ? `${label} ${shown.tag}` : label, title: shown.tag ? `${title} (${shown.tag})` : title, height, gap };
}

/** A lane whose states overlap has a row for each state. */
function laneRows(shown: Shown, lane: Lane, gap: number): Row[] {
  if (lane.length === 0) return [];
  const label = LABELS[lane.id] ?? lane.title;
  if (!overlaps(lane)) return [{ kind: "states", lane, ...place(shown, label, lane.title, 16, gap) }];
  return split(lane).map((part, index) => {
    const name = words(part.names[0] ?? "");
    return { kind: "states", lane: part, ...place(shown, name, `${lane.title}: ${name}`, 10, index === 0 ? gap : 1) };
  });
}

function overlaps(lane: Lane): boolean {
  for (let index = 1; index < lane.length; index += 1) {
    const before = lane.end[index - 1] as number;
    if (before !== Infinity && before > (lane.begin[index] as number) + 1e-6) return true;
  }
  return false;
}

/** A lane for each state that occurs. */
function split(lane: Lane): Lane[] {
  return lane.names.flatMap((name, state) => {
    const indices: number[] = [];
    for (let index = 0; index < lane.length; index += 1) if (lane.state[index] === state) indices.push(index);
    if (indices.length === 0) return [];
    const pick = (column: Float64Array): Float64Array => Float64Array.from(indices, (index) => column[index] as number);
    return [new Lane(lane.id, lane.title, [name], pick(lane.begin), pick(lane.end), new Uint16Array(indices.length), indices.length)];
  });
}

function unique(names: string[]): string[] {
  return [...new Set(names)];
}
