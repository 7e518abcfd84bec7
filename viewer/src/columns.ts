/** Curves with more samples than pixel columns: each column is drawn as a bar from its minimum to its maximum. */
import { colourOf, type Colour, type Raster } from "./raster.ts";
import type { Box, Course, Style } from "./stroke.ts";
import type { Thinned } from "./thin.ts";

/** Collects the points of one pixel column at a time, in device pixels. */
class Bars {
  private column = NaN;
  private upper = 0;
  private lower = 0;
  private last = NaN;
  private readonly colour: Colour;

  constructor(
    private readonly raster: Raster,
    private readonly bottom: number,
    private readonly step: boolean,
    private readonly style: Style,
  ) {
    this.colour = colourOf(style.colour);
  }

  /** Adds the next point. */
  add(x: number, y: number): void {
    const column = Math.floor(x);
    if (column !== this.column) {
      const near = this.step || column === this.column + 1;
      this.finish();
      if (Number.isFinite(this.last)) this.join(column, y);
      this.column = column;
      // Adjacent columns touch: a line between their points passes through both.
      this.upper = this.lower = near && Number.isFinite(this.last) ? this.last : y;
    }
    this.upper = Math.min(this.upper, y);
    this.lower = Math.max(this.lower, y);
    this.last = y;
  }

  /** Starts a gap: the next point is not joined to the previous one. */
  lift(): void {
    this.finish();
    this.column = this.last = NaN;
  }

  /** Draws the pending column, and extends its last value to a later column. */
  end(until: number): void {
    this.finish();
    if (this.step && Number.isFinite(this.last) && until > this.column + 1) this.bar(this.column + 1, until - this.column - 1, this.last, this.last);
  }

  private finish(): void {
    if (Number.isFinite(this.column)) this.bar(this.column, 1, this.upper, this.lower);
  }

  /** Joins the last point to one in a later column. */
  private join(column: number, y: number): void {
    const gap = column - this.column - 1;
    if (gap < 1) return;
    if (this.step) return this.bar(this.column + 1, gap, this.last, this.last);
    const slope = (y - this.last) / (gap + 1);
    for (let passed = 0; passed < gap; passed += 1) {
      const [one, other] = [this.last + slope * (passed + 0.5), this.last + slope * (passed + 1.5)];
      this.bar(this.column + 1 + passed, 1, Math.min(one, other), Math.max(one, other));
    }
  }

  private bar(left: number, width: number, upper: number, lower: number): void {
    const { raster, colour, style } = this;
    const top = Math.round(upper - style.width / 2);
    const height = Math.max(1, Math.round(lower + style.width / 2) - top);
    raster.fill(left, top, width, height, colour, style.opacity);
    if (style.fill > 0) raster.fill(left, top + height, width, Math.round(this.bottom) - top - height, colour, style.opacity * style.fill);
  }
}

/** Draws samples that are denser than the pixel columns. */
export function paintColumns(raster: Raster, box: Box, samples: Thinned, { factor, step, until }: Course, style: Style): void {
  const xScale = box.width / (box.xMax - box.xMin);
  const yScale = box.height / (box.yMax - box.yMin);
  const toX = (time: number): number => box.left + (time * factor - box.xMin) * xScale;
  const bottom = box.top + box.height + box.yMin * yScale;
  const bars = new Bars(raster, bottom, step, style);
  for (let index = 0; index < samples.length; index += 1) {
    const value = samples.value[index] as number;
    if (Number.isFinite(value)) bars.add(toX(samples.time[index] as number), bottom - value * yScale);
    else bars.lift();
  }
  bars.end(Math.round(Math.min(toX(until), box.left + box.width)));
}
