/** The fate of each packet that one endpoint sent, when the traces of both endpoints are on one clock. */
import { median } from "./median.ts";
import { Curve, LOST, Marks, SENT, type Packets } from "./model.ts";
import { NO_PACKET } from "./protocol.ts";

/** The numbers of packets of one endpoint by fate, and their delays in ms. */
export interface Tally {
  readonly sent: number;
  readonly neverArrived: number;
  /** Sent so late that the other endpoint's trace may have ended before they arrived. */
  readonly onTheirWay: number;
  /** Declared lost by the sender, but received. */
  readonly arrivedAfterAll: number;
  /** null: none arrived. */
  readonly least: number | null;
  readonly median: number | null;
}

/** The additions to a trace that show the fates of its packets. */
export interface Derived {
  readonly curve: Curve;
  readonly marks: readonly Marks[];
  readonly tally: Tally;
}

export class Fates {
  constructor(
    private readonly sent: Packets,
    private readonly received: Packets,
    /** For each row of `sent` the row of `received`, as found by `Passage`. */
    private readonly arrivals: Uint32Array,
    /** A packet that was sent after this time and did not arrive may have been in transit when the other trace ended. */
    private readonly judgedUntil: number,
  ) {}

  /** The fate of the packet in a row as text; empty if it has none. */
  describe(row: number): string {
    const [kind, arrived] = [this.sent.kind[row], this.arrivals[row] !== NO_PACKET];
    if (kind === LOST) return arrived ? "arrived after all" : "";
    if (kind !== SENT || !this.isNumbered(row)) return "";
    if (!arrived) return this.isJudged(row) ? "never arrived" : "in transit";
    const delay = this.delay(row);
    return `arrived ${delay < 0 ? "−" : "+"}${Math.abs(delay).toFixed(2)} ms`;
  }

  derive(): Derived {
    const { sent, arrivals } = this;
    const curve = new Curve("one_way_delay", "one-way delay", "ms", false, new Float64Array(sent.length), new Float64Array(sent.length), 0);
    const [neverArrived, arrivedAfterAll]: [number[], number[]] = [[], []];
    let [onTheirWay, least] = [0, Infinity];
    for (let row = 0; row < sent.length; row += 1) {
      const arrived = arrivals[row] !== NO_PACKET;
      if (sent.kind[row] === LOST && arrived) arrivedAfterAll.push(row);
      if (sent.kind[row] !== SENT || !this.isNumbered(row)) continue;
      if (arrived) {
        curve.time[curve.length] = sent.time[row] as number;
        curve.value[curve.length] = this.delay(row);
        least = Math.min(least, curve.value[curve.length] as number);
        curve.length += 1;
      } else if (this.isJudged(row)) neverArrived.push(row);
      else onTheirWay += 1;
    }
    return {
      curve,
      marks: [marksAt(sent, neverArrived, "never_arrived", "never arrived"), marksAt(sent, arrivedAfterAll, "arrived_after_all", "declared lost, but arrived")],
      tally: {
        sent: curve.length + neverArrived.length + onTheirWay,
        neverArrived: neverArrived.length,
        onTheirWay,
        arrivedAfterAll: arrivedAfterAll.length,
        least: curve.length === 0 ? null : least,
        median: median(curve.value.slice(0, curve.length)),
      },
    };
  }

  private delay(row: number): number {
    return (this.received.time[this.arrivals[row] as number] as number) - (this.sent.time[row] as number);
  }

  /** Packets without a number (Retry, Version Negotiation) cannot be distinguished. */
  private isNumbered(row: number): boolean {
    return Number.isFinite(this.sent.number[row]);
  }

  private isJudged(row: number): boolean {
    return (this.sent.time[row] as number) <= this.judgedUntil;
  }
}

function marksAt(packets: Packets, rows: number[], id: string, title: string): Marks {
  const time = Float64Array.from(rows, (row) => packets.time[row] as number);
  return new Marks(id, title, time, Uint32Array.from(rows), rows.length);
}
