/** The layer over plots and lanes: the cursor, the selection while it is dragged, the ruler, the selected finding. */
import { element } from "./dom.ts";
import type { Geometry } from "./geometry.ts";

/** A range of the axis that is marked; null: none. */
export type Stretch = readonly [from: number, to: number] | null;

export class Glass {
  readonly host: HTMLElement;
  private readonly hover = element("div", { class: "line hover" });
  private readonly pin = element("div", { class: "line pin" });
  private readonly selection = element("div", { class: "band selection" });
  private readonly ruler = element("div", { class: "band ruler" });
  private readonly finding = element("div", { class: "band finding" });

  constructor(private readonly geometry: Geometry) {
    this.host = element("div", { class: "glass", "aria-hidden": "true" }, this.finding, this.ruler, this.selection, this.hover, this.pin);
  }

  draw(marks: { hover: number | null; pin: number | null; selection: Stretch; ruler: Stretch; finding: Stretch }): void {
    this.line(this.hover, marks.hover);
    this.line(this.pin, marks.pin);
    this.band(this.selection, marks.selection);
    this.band(this.ruler, marks.ruler);
    this.band(this.finding, marks.finding);
  }

  private line(line: HTMLElement, place: number | null): void {
    const pixel = place === null ? -1 : this.geometry.toPixel(place);
    line.hidden = place === null || !this.geometry.covers(Math.round(pixel));
    line.style.transform = `translateX(${pixel}px)`;
  }

  private band(band: HTMLElement, stretch: Stretch): void {
    band.hidden = stretch === null;
    if (stretch === null) return;
    const left = Math.max(this.geometry.left, this.geometry.toPixel(Math.min(...stretch)));
    const right = Math.min(this.geometry.width - this.geometry.right, this.geometry.toPixel(Math.max(...stretch)));
    band.hidden = right < this.geometry.left || left > this.geometry.width - this.geometry.right;
    band.style.left = `${left}px`;
    band.style.width = `${Math.max(0, right - left)}px`;
  }
}
