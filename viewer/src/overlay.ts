/** The traces on the screen, and how their times are mapped to the common x axis. */
import { endsOf, type Ends } from "./ends.ts";
import type { Fates } from "./fates.ts";
import type { Trace } from "./model.ts";

export type Axis = "time" | "round_trips";

/** A trace on the screen. */
export interface Shown {
  readonly trace: Trace;
  /** "A" and "B" if there are two traces, otherwise empty. */
  readonly tag: "" | "A" | "B";
  /** Units of the axis for each ms of the trace. */
  readonly factor: number;
  /** The fates of its packets, if the other trace is that of the peer. */
  readonly fates?: Fates;
}

export class Comparison {
  axis: Axis = "time";
  main: Trace | null = null;
  other: Trace | null = null;
  private compared: { main: Trace | null; other: Trace | null; ends: Ends | null } = { main: null, other: null, ends: null };

  /** Both traces on one clock, if they are from the two endpoints of one connection. */
  get ends(): Ends | null {
    const { main, other } = this;
    if (main !== this.compared.main || other !== this.compared.other) this.compared = { main, other, ends: main === null || other === null ? null : endsOf(main, other) };
    return this.compared.ends;
  }

  /** The position on the axis at which the main trace begins, in ms. */
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

  /** Whether the round-trip time of every trace on the screen is known. */
  countsRoundTrips(): boolean {
    return this.shown().every(({ trace }) => trace.roundTrip !== null);
  }

  /** Units of the axis for each ms of `trace`. */
  factor(trace: Trace): number {
    return this.axis === "round_trips" && trace.roundTrip !== null ? 1 / trace.roundTrip : 1;
  }

  /** The end of the axis. The axis begins at 0, where all traces begin, or the earlier trace of two endpoints. */
  end(): number {
    return Math.max(0, ...this.shown().map(({ trace, factor }) => trace.duration * factor));
  }
}
