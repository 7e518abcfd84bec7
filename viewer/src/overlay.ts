/** Which traces are on the screen, and how their times lie on the one x axis. */
import { endsOf, type Ends } from "./ends.ts";
import type { Fates } from "./fates.ts";
import type { Trace } from "./model.ts";

export type Axis = "time" | "round_trips";

/** A trace on the screen. */
export interface Shown {
  readonly trace: Trace;
  /** "A" and "B" if two traces lie over each other, otherwise empty. */
  readonly tag: "" | "A" | "B";
  /** Units of the axis for each ms of the trace. */
  readonly factor: number;
  /** What became of its packets, if the other trace is the other end of its connection. */
  readonly fates?: Fates;
}

export class Comparison {
  axis: Axis = "time";
  main: Trace | null = null;
  other: Trace | null = null;
  private looked: { main: Trace | null; other: Trace | null; ends: Ends | null } = { main: null, other: null, ends: null };

  /** Both traces on one clock, if they are the two ends of one connection. */
  get ends(): Ends | null {
    const { main, other } = this;
    if (main !== this.looked.main || other !== this.looked.other) this.looked = { main, other, ends: main === null || other === null ? null : endsOf(main, other) };
    return this.looked.ends;
  }

  /** Where on the axis the main trace begins, in ms. */
  get begin(): number {
    return this.ends?.main.moved ?? 0;
  }

  /** The traces to draw, the main one first. */
  shown(): Shown[] {
    const { main, other, ends } = this;
    if (main === null) return [];
    if (ends !== null) {
      return [
        { trace: ends.main.trace, tag: "A", factor: this.factor(ends.main.trace), fates: ends.main.fates },
        { trace: ends.other.trace, tag: "B", factor: this.factor(ends.other.trace), fates: ends.other.fates },
      ];
    }
    if (other === null) return [{ trace: main, tag: "", factor: this.factor(main) }];
    return [
      { trace: main, tag: "A", factor: this.factor(main) },
      { trace: other, tag: "B", factor: this.factor(other) },
    ];
  }

  /** Whether every trace on the screen knows its round trip. */
  countsRoundTrips(): boolean {
    return this.shown().every(({ trace }) => trace.roundTrip !== null);
  }

  /** Units of the axis for each ms of `trace`. */
  factor(trace: Trace): number {
    return this.axis === "round_trips" && trace.roundTrip !== null ? 1 / trace.roundTrip : 1;
  }

  /** The end of the axis: it begins at 0, where every trace begins, or the earlier one of two ends. */
  end(): number {
    return Math.max(0, ...this.shown().map(({ trace, factor }) => trace.duration * factor));
  }
}
