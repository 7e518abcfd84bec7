/** The lanes below the plots: states and reasons over time, marks for events (losses, probe timeouts), and the ranges of the findings. */
import { element } from "./dom.ts";
import { words } from "./format.ts";
import type { Geometry } from "./geometry.ts";
import type { Finding } from "./protocol.ts";
import { rowsOf, type Row } from "./rows.ts";
import type { Scene } from "./plot.ts";
import { Raster } from "./raster.ts";
import { paintFindings, paintMarks, paintStates } from "./paint.ts";
import type { View } from "./view.ts";

export class Lanes {
  readonly host: HTMLElement;
  private readonly canvas = element("canvas");
  private readonly raster = new Raster();
  private readonly names = element("div", { class: "lane-names" });
  private rows: Row[] = [];
  private height = 0;

  constructor(
    private readonly view: View,
    private readonly geometry: Geometry,
  ) {
    this.host = element("section", { class: "lanes", role: "img", "aria-label": "States, what blocked sending, and marks over time" }, this.names, this.canvas);
  }

  /** Builds the rows for the traces on the screen. */
  rebuild(scene: Scene): void {
    this.rows = rowsOf(scene.shown);
    this.height = this.rows.reduce((sum, row) => sum + row.height + row.gap, 4);
    this.host.style.height = `${this.height}px`;
    let top = 0;
    this.names.replaceChildren(
      ...this.rows.map((row) => {
        top += row.gap;
        const name = element("span", { title: row.title }, row.label);
        name.style.top = `${top}px`;
        name.style.height = name.style.lineHeight = `${row.height}px`;
        top += row.height;
        return name;
      }),
    );
  }

  draw(scene: Scene, selected: Finding | null): void {
    const ratio = devicePixelRatio;
    const width = Math.round(this.geometry.width * ratio);
    const height = Math.round(this.height * ratio);
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
    this.names.style.width = `${this.geometry.left - 6}px`;
    const context = this.canvas.getContext("2d");
    if (context === null) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.geometry.width, this.height);
    const style = getComputedStyle(document.documentElement);
    const ink = { text: style.getPropertyValue("--text"), track: style.getPropertyValue("--track"), accent: style.getPropertyValue("--accent"), theme: scene.theme };
    let top = 0;
    for (const row of this.rows) {
      top += row.gap;
      const area = { context, raster: this.raster, ratio, top, height: row.height, left: this.geometry.left, width: this.geometry.plotWidth, view: this.view, factor: row.shown.factor, ink };
      context.fillStyle = ink.track;
      context.fillRect(area.left, top, area.width, row.height);
      if (row.kind === "states") paintStates(area, row.lane);
      else if (row.kind === "marks") paintMarks(area, row.marks);
      else paintFindings(area, row.findings, selected);
      top += row.height;
    }
  }

  /** The states at a position on the axis, as text for the line above the plots. */
  at(place: number): string {
    const states = this.rows.flatMap((row) => {
      if (row.kind !== "states") return [];
      const index = row.lane.at(place / row.shown.factor);
      return index < 0 ? [] : [`${row.label}: ${words(row.lane.name(index))}`];
    });
    return states.join(" · ");
  }

  /** The finding at a point on the screen. */
  findingAt(clientX: number, clientY: number): Finding | null {
    const bounds = this.host.getBoundingClientRect();
    const [x, y] = [clientX - bounds.left, clientY - bounds.top];
    let top = 0;
    for (const row of this.rows) {
      top += row.gap;
      const within = y >= top && y <= top + row.height;
      top += row.height;
      if (!within || row.kind !== "findings") continue;
      const place = this.geometry.toPlace(x);
      const slack = (3 / this.geometry.plotWidth) * this.view.span;
      return (
        row.findings.find(({ begin_ms, end_ms }) => begin_ms * row.shown.factor - slack <= place && place <= end_ms * row.shown.factor + slack) ?? null
      );
    }
    return null;
  }
}
