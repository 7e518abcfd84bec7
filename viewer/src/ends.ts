/** Two traces of the two endpoints of one connection: how they are recognized and put on one clock, and the fate of each packet. */
import { Fates, type Tally } from "./fates.ts";
import type { Trace } from "./model.ts";
import { Passage, type Likeness } from "./passage.ts";

/** The offset of the clocks of two traces. Each clock counts from the beginning of its own trace. */
export interface Clocks {
  /** The time of the other clock minus that of the main one, in ms. */
  readonly offset: number;
  /** The sum of the minimum delays in both directions, which does not depend on the offset; null: packets arrived in one direction only. */
  readonly roundTrip: number | null;
}

/** One endpoint, as it is shown. */
export interface End {
  /** A copy of its trace on the common clock, with a curve and marks that are computed from both traces. */
  readonly trace: Trace;
  /** By how much the trace was moved, in ms. */
  readonly moved: number;
  readonly fates: Fates;
  readonly tally: Tally;
}

export interface Ends {
  readonly clocks: Clocks;
  readonly main: End;
  readonly other: End;
}

/** The fraction of packets that must agree if the traces do not identify their connection. */
const AGREEING = 0.9;
/** The minimum number of compared packets in each direction. */
const COMPARED = 10;
/** The minimum number of packets, in both directions together, with a size other than the most common one. */
const UNUSUAL = 20;
/** How many rows at the end of a table are searched for CONNECTION_CLOSE; reading the frames of all rows would take too long. */
const CLOSING = 500;

/** The two endpoints of one connection; null if the traces are not from one connection. */
export function endsOf(main: Trace, other: Trace): Ends | null {
  if ([main.vantage, other.vantage].sort().join() !== "client,server") return null;
  const named = main.connection !== null && other.connection !== null;
  if (named && main.connection !== other.connection) return null;
  const [there, back] = [new Passage(main.packets, other.packets), new Passage(other.packets, main.packets)];
  if (!named && !isOneConnection(there.likeness, back.likeness)) return null;
  const clocks = clocksOf(there.least, back.least);
  if (clocks === null) return null;
  // If packets seem to arrive before they are sent, the traces are from different connections; two downloads of different speed look like this.
  if (!named && clocks.roundTrip !== null && clocks.roundTrip < 0) return null;
  // The trace that began later is moved, so that no time is before 0; both use the same round-trip time as a unit.
  const [byMain, byOther] = [Math.max(0, clocks.offset), Math.max(0, -clocks.offset)];
  const one = moved(main, byMain);
  const two = { ...moved(other, byOther), roundTrip: main.roundTrip ?? other.roundTrip };
  const roundTrip = Math.max(main.roundTrip ?? 0, other.roundTrip ?? 0, clocks.roundTrip ?? 0);
  return { clocks, main: endOf(one, two, there.arrivals, byMain, roundTrip), other: endOf(two, one, back.arrivals, byOther, roundTrip) };
}

/**
 * Whether the packets prove that the traces are from one connection: in each direction, nine of ten received packets agree with a sent one. Numbers begin
 * at 0 in every connection, and in a download nearly all packets have the maximum size of the path: such packets agree in any two downloads, and the first few
 * of a handshake in any two connections of a server. Therefore the same must hold for packets whose size is not the most common one in their direction, and there
 * must be enough of them.
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

/** The offset that makes the minimum delays of both directions equal; if packets arrived in one direction only, the one that makes its minimum delay 0. */
function clocksOf(there: number, back: number): Clocks | null {
  if (there !== Infinity && back !== Infinity) return { offset: (there - back) / 2, roundTrip: there + back };
  if (there !== Infinity) return { offset: there, roundTrip: null };
  return back === Infinity ? null : { offset: -back, roundTrip: null };
}

/** A copy of a trace, `by` ms later. The original is kept, because it is shown if it is alone. */
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

/** The time until which a trace records received packets: an endpoint that has sent or received CONNECTION_CLOSE processes no more packets, and the table of a long trace may have been cut. */
function endOfPackets({ packets, thinned, duration }: Trace): number {
  let end = thinned ? (packets.time[packets.length - 1] ?? 0) : duration;
  for (let row = packets.length - 1; row >= Math.max(0, packets.length - CLOSING); row -= 1) {
    if (packets.frames(row).includes("CONNECTION_CLOSE")) end = packets.time[row] as number;
  }
  return end;
}
