/**
 * Draws curves with more samples than pixel columns: each column is a bar from its minimum to its maximum value. Browsers fill bars fast, but are slow at
 * drawing a line that goes up and down in every pixel.
 */
import type { Box, Course, Style } from "./stroke.ts";
import type { Thinned } from "./thin.ts";

/** Collects the points of one pixel column after another; in device pixels. */
class Bars {
  private column = NaN;
  private upper = 0;
  private lower = 0;
  private last = NaN;
  private readonly slopes = new Path2D();
  /** The areas below the bars, which are filled at the end, because changing the opacity is slow. */
  private readonly below: [left: number, top: number, width: number, height: number][] = [];

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly bottom: number,
    private readonly step: boolean,
    private readonly style: Style,
  ) {}

  /** Adds the next point. */
  add(x: number, y: number): void {
    const column = Math.floor(x);
    if (column !== this.column) {
      const near = this.step || column === this.column + 1;
      this.finish();
      if (Number.isFinite(this.last)) this.join(column, y);
      this.column = column;
      // The bars of adjacent columns touch, because a line between their points would pass through both.
      this.upper = this.lower = near && Number.isFinite(this.last) ? this.last : y;
    }
    this.upper = Math.min(this.upper, y);
    this.lower = Math.max(this.lower, y);
    this.last = y;
  }

  /** The next point is not connected to the previous one. */
  lift(): void {
    this.finish();
    this.column = this.last = NaN;
  }

  /** Draws the last column, and the lines between columns that are not adjacent. */
  end(until: number): void {
    this.finish();
    if (this.step && Number.isFinite(this.last) && until > this.column + 1) this.bar(this.column + 1, until - this.column - 1, this.last, this.last);
    this.context.lineWidth = this.style.width;
    this.context.stroke(this.slopes);
    this.context.globalAlpha = this.style.opacity * this.style.fill;
    for (const area of this.below) this.context.fillRect(...area);
  }

  private finish(): void {
    if (Number.isFinite(this.column)) this.bar(this.column, 1, this.upper, this.lower);
  }

  /** Connects the last point to one in a later column. */
  private join(column: number, y: number): void {
    const gap = column - this.column - 1;
    if (gap < 1) return;
    if (this.step) this.bar(this.column + 1, gap, this.last, this.last);
    else {
      this.slopes.moveTo(this.column + 0.5, this.last);
      this.slopes.lineTo(column + 0.5, y);
    }
  }

  private bar(left: number, width: number, upper: number, lower: number): void {
    const { style } = this;
    const top = Math.round(upper - style.width / 2);
    const height = Math.max(1, Math.round(lower + style.width / 2) - top);
    this.context.fillRect(left, top, width, height);
    if (style.fill > 0) this.below.push([left, top + height, width, Math.max(0, Math.round(this.bottom) - top - height)]);
  }
}

/** Draws samples of which there are several per pixel column. */
export function paintColumns(context: CanvasRenderingContext2D, box: Box, samples: Thinned, { factor, step, until }: Course, style: Style): void {
  const xScale = box.width / (box.xMax - box.xMin);
  const yScale = box.height / (box.yMax - box.yMin);
  const toX = (time: number): number => box.left + (time * factor - box.xMin) * xScale;
  const bottom = box.top + box.height + box.yMin * yScale;
  context.save();
  context.fillStyle = context.strokeStyle = style.colour;
  context.globalAlpha = style.opacity;
  const bars = new Bars(context, bottom, step, style);
  for (let index = 0; index < samples.length; index += 1) {
    const value = samples.value[index] as number;
    if (Number.isFinite(value)) bars.add(toX(samples.time[index] as number), bottom - value * yScale);
    else bars.lift();
  }
  bars.end(Math.round(Math.min(toX(until), box.left + box.width)));
  context.restore();
}
