/** Two traces that are the two ends of one connection: how to know, how to lay them on one clock, and what then can be told of each packet. */
import { Fates, type Tally } from "./fates.ts";
import type { Trace } from "./model.ts";
import { Passage, type Likeness } from "./passage.ts";

/** How the clocks of two traces lie to each other. Each counts from the beginning of its own trace. */
export interface Clocks {
  /** What the other clock shows less what the main one shows, in ms. */
  readonly offset: number;
  /** The shortest way there and back together, which needs no clock to be right; null: packets arrived in one direction only. */
  readonly roundTrip: number | null;
}

/** One end, as it is to be shown. */
export interface End {
  /** A copy on the one clock, with a curve and marks that only both ends together can tell. */
  readonly trace: Trace;
  /** By how much it was moved, in ms. */
  readonly moved: number;
  readonly fates: Fates;
  readonly tally: Tally;
}

export interface Ends {
  readonly clocks: Clocks;
  readonly main: End;
  readonly other: End;
}

/** How the packets of two traces must agree, where it is not known which connection they are of. */
const AGREEING = 0.9;
/** How many have to be compared in each direction. */
const COMPARED = 10;
/** How many of them, of both directions, must be of an unusual size. */
const UNUSUAL = 20;
/** How many rows from the end of a table the connection may have been closed; not more, as to read the frames of all rows takes long. */
const CLOSING = 500;

/** The two ends of one connection; null if the traces are not that. */
export function endsOf(main: Trace, other: Trace): Ends | null {
  if ([main.vantage, other.vantage].sort().join() !== "client,server") return null;
  const named = main.connection !== null && other.connection !== null;
  if (named && main.connection !== other.connection) return null;
  const [there, back] = [new Passage(main.packets, other.packets), new Passage(other.packets, main.packets)];
  if (!named && !isOneConnection(there.likeness, back.likeness)) return null;
  const clocks = clocksOf(there.least, back.least);
  if (clocks === null) return null;
  // Packets that are there before they are sent are of different connections; two that go at different speeds come to that.
  if (!named && clocks.roundTrip !== null && clocks.roundTrip < 0) return null;
  // The trace that began later is moved, so that no time is before 0; both count in the same round trips.
  const [byMain, byOther] = [Math.max(0, clocks.offset), Math.max(0, -clocks.offset)];
  const one = moved(main, byMain);
  const two = { ...moved(other, byOther), roundTrip: main.roundTrip ?? other.roundTrip };
  const roundTrip = Math.max(main.roundTrip ?? 0, other.roundTrip ?? 0, clocks.roundTrip ?? 0);
  return { clocks, main: endOf(one, two, there.arrivals, byMain, roundTrip), other: endOf(two, one, back.arrivals, byOther, roundTrip) };
}

/**
 * Whether packets prove that they are of one connection: in each direction nine of ten that came were sent so. Numbers begin at 0 in every connection, and
 * of a download nearly all packets are as long as the path allows: such packets agree in any two downloads, and the first few of a handshake in any two of
 * a server. So the same must hold of packets that have not the commonest size of their direction, and there must be enough of them.
 */
function isOneConnection(there: Likeness, back: Likeness): boolean {
  let [unusual, unusualAgreeing] = [0, 0];
  for (const { compared, same } of [there, back]) {
    const [all, agreeing] = [sum(compared), sum(same)];
    if (all < COMPARED || agreeing < all * AGREEING) return false;
    const commonest = compared.indexOf(compared.reduce((most, count) => Math.max(most, count)));
    unusual += all - (compared[commonest] as number);
    unusualAgreeing += agreeing - (same[commonest] as number);
  }
  return unusual >= UNUSUAL && unusualAgreeing >= unusual * AGREEING;
}

function sum(counts: Uint32Array): number {
  return counts.reduce((total, count) => total + count, 0);
}

/** The offset with which the shortest ways there and back are equal; where packets arrived in one direction only, with which the shortest takes no time. */
function clocksOf(there: number, back: number): Clocks | null {
  if (there !== Infinity && back !== Infinity) return { offset: (there - back) / 2, roundTrip: there + back };
  if (there !== Infinity) return { offset: there, roundTrip: null };
  return back === Infinity ? null : { offset: -back, roundTrip: null };
}

/** A copy of a trace, `by` ms later. The trace itself stays: alone, it is shown as it is. */
function moved(trace: Trace, by: number): Trace {
  if (by === 0) return trace;
  return {
    ...trace,
    duration: trace.duration + by,
    curves: trace.curves.map((curve) => curve.moved(by)),
    lanes: trace.lanes.map((lane) => lane.moved(by)),
    marks: trace.marks.map((marks) => marks.moved(by)),
    packets: trace.packets.moved(by),
    findings: trace.findings.map((finding) => ({ ...finding, begin_ms: finding.begin_ms + by, end_ms: finding.end_ms + by })),
  };
}

function endOf(trace: Trace, peer: Trace, arrivals: Uint32Array, moved: number, roundTrip: number): End {
  const fates = new Fates(trace.packets, peer.packets, arrivals, endOfPackets(peer) - roundTrip);
  const { curve, marks, tally } = fates.derive();
  const isFilled = ({ length }: { length: number }): boolean => length > 0;
  return { trace: { ...trace, curves: [...trace.curves, ...[curve].filter(isFilled)], marks: [...trace.marks, ...marks.filter(isFilled)] }, moved, fates, tally };
}

/** Up to when a trace tells of what comes: an end that has sent or received CONNECTION_CLOSE takes no more, and the table of a long trace may have been cut. */
function endOfPackets({ packets, thinned, duration }: Trace): number {
  let end = thinned ? (packets.time[packets.length - 1] ?? 0) : duration;
  for (let row = packets.length - 1; row >= Math.max(0, packets.length - CLOSING); row -= 1) {
    if (packets.frames(row).includes("CONNECTION_CLOSE")) end = packets.time[row] as number;
  }
  return end;
}
