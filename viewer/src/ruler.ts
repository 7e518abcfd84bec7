/** The ruler: two positions on the axis, and the differences between them. */
import { element } from "./dom.ts";
import { difference, duration, quantity, roundTrips } from "./format.ts";
import type { Stretch } from "./glass.ts";
import type { Shown } from "./overlay.ts";
import { curveRank } from "./palette.ts";

/** A height in a plot, as a value of its y axis and the unit. */
export interface Height {
  readonly value: number;
  readonly unit: string;
}

export class Ruler {
  readonly host: HTMLElement;
  private from: number | null = null;
  private to: number | null = null;
  private heights: [Height, Height] | null = null;
  private readonly body = element("div");

  constructor(private readonly changed: () => void) {
    const close = element("button", { type: "button", class: "close", "aria-label": "Remove the ruler", onclick: () => this.clear() }, "×");
    this.host = element("aside", { class: "ruler-box", "aria-label": "Ruler", role: "status" }, close, this.body);
  }

  get active(): boolean {
    return this.from !== null;
  }

  /** Whether the second end still follows the cursor. */
  get open(): boolean {
    return this.from !== null && this.to === null;
  }

  /** Sets the first end, then the second, then removes the ruler. */
  press(place: number): void {
    if (this.from === null) this.from = place;
    else if (this.to === null) this.to = place;
    else return this.clear();
    this.changed();
  }

  /** Sets both ends of the ruler, with their heights if it was drawn within one plot. */
  lay(from: number, to: number, heights: [Height, Height] | null): void {
    this.from = from;
    this.to = to;
    this.heights = heights;
    this.changed();
  }

  clear(): void {
    this.from = this.to = this.heights = null;
    this.changed();
  }

  shift(by: number): void {
    if (this.from !== null) this.from += by;
    if (this.to !== null) this.to += by;
  }

  rescale(by: number): void {
    if (this.from !== null) this.from *= by;
    if (this.to !== null) this.to *= by;
  }

  /** The range between its ends; an open end is at the cursor. */
  stretch(cursor: number | null): Stretch {
    if (this.from === null) return null;
    return [this.from, this.to ?? cursor ?? this.from];
  }

  /** Writes the differences between the ends. */
  draw(shown: Shown[], cursor: number | null, middle: number): void {
    const stretch = this.stretch(cursor);
    this.host.hidden = stretch === null;
    const first = shown[0];
    if (stretch === null || first === undefined) return;
    // The box is placed on the side where the ruler is not.
    this.host.classList.toggle("at-left", stretch[0] + stretch[1] > middle * 2);
    const rows = shown.flatMap((one) => curveRows(one, stretch));
    this.body.replaceChildren(
      element("p", {}, element("strong", {}, extent(first, stretch)), this.open ? " — press r to set the end" : ""),
      ...(this.heights ? [element("p", {}, `vertical: Δ ${difference(this.heights[1].value - this.heights[0].value, this.heights[0].unit)}`)] : []),
      element("table", {}, ...rows),
    );
  }
}

function extent(first: Shown, [from, to]: readonly [number, number]): string {
  const milliseconds = (to - from) / first.factor;
  const trips = first.trace.roundTrip === null ? "" : ` · ${roundTrips(milliseconds / first.trace.roundTrip)}`;
  return `Δ ${duration(milliseconds)}${trips}`;
}

function curveRows({ trace, factor, tag }: Shown, [from, to]: readonly [number, number]): HTMLElement[] {
  const ranked = trace.curves.filter(({ detail }) => !detail).sort((one, other) => curveRank(one.id) - curveRank(other.id));
  return ranked.flatMap((curve) => {
    const begin = curve.at(from / factor);
    const end = curve.at(to / factor);
    if (begin === null || end === null) return [];
    const cells = [`${tag ? `${tag} ` : ""}${curve.title}`, quantity(begin, curve.unit), "→", quantity(end, curve.unit), difference(end - begin, curve.unit)];
    return [element("tr", {}, ...cells.map((cell, index) => element(index === 0 ? "th" : "td", {}, cell)))];
  });
}
