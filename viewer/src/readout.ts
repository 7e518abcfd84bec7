/** The line that shows the position of the cursor and the states there. */
import { element, write } from "./dom.ts";
import { instant, roundTrips } from "./format.ts";
import type { Axis, Shown } from "./overlay.ts";
import type { View } from "./view.ts";

export class Readout {
  readonly host: HTMLElement;
  private readonly place = element("span", { class: "place" });
  private readonly said = element("span", { class: "said" });
  private readonly range = element("span", { class: "range" });
  private readonly spoken = element("span", { class: "spoken", role: "status", "aria-live": "polite" });
  private speaking = 0;

  constructor() {
    this.host = element("div", { class: "readout" }, this.place, this.said, this.range, this.spoken);
  }

  /** Writes the states at a position on the axis, and the range in view. */
  draw(first: Shown, place: number | null, states: string, { min, max, span: shown }: View, axis: Axis, note: string): void {
    const span = shown / first.factor;
    const end = (place: number): string => (axis === "time" ? instant(place / first.factor, span) : roundTrips(place));
    const view = `${end(min)} – ${end(max)} in view`;
    write(this.range, note === "" ? view : `${note} · ${view}`);
    write(this.place, place === null ? "point at a plot or press Shift →" : where(first, place, span));
    this.place.classList.toggle("nowhere", place === null);
    write(this.said, place === null ? "" : states);
  }

  /** Announces the line to screen readers when the cursor has stopped, for readers who move it by keyboard. */
  speak(more: () => string): void {
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => write(this.spoken, `${this.place.textContent}. ${more()}. ${this.said.textContent}`), 400);
  }
}

function where({ trace, factor }: Shown, place: number, span: number): string {
  const time = place / factor;
  const trips = trace.roundTrip === null ? "" : ` · ${roundTrips(time / trace.roundTrip)}`;
  return `${instant(time, span)}${trips}`;
}
