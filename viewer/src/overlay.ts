/** Which traces are on the screen, and how their times lie on the one x axis. */
import type { Trace } from "./model.ts";

export type Axis = "time" | "round_trips";

/** A trace on the screen. */
export interface Shown {
  readonly trace: Trace;
  /** "A" and "B" if two traces lie over each other, otherwise empty. */
  readonly tag: "" | "A" | "B";
  /** Units of the axis for each ms of the trace. */
  readonly factor: number;
}

export class Comparison {
  axis: Axis = "time";
  main: Trace | null = null;
  other: Trace | null = null;

  /** The traces to draw, the main one first. */
  shown(): Shown[] {
    const { main, other } = this;
    if (main === null) return [];
    if (other === null) return [{ trace: main, tag: "", factor: this.factor(main) }];
    return [
      { trace: main, tag: "A", factor: this.factor(main) },
      { trace: other, tag: "B", factor: this.factor(other) },
    ];
  }

  /** Whether every trace on the screen knows its round trip. */
  countsRoundTrips(): boolean {
    return [this.main, this.other].every((trace) => trace === null || trace.roundTrip !== null);
  }

  /** Units of the axis for each ms of `trace`. */
  factor(trace: Trace): number {
    return this.axis === "round_trips" && trace.roundTrip !== null ? 1 / trace.roundTrip : 1;
  }

  /** The end of the axis: it begins at 0, where every trace begins. */
  end(): number {
    return Math.max(0, ...this.shown().map(({ trace, factor }) => trace.duration * factor));
  }
}
