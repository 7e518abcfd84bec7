/** Lines of thinned samples on a canvas. */
import { paintColumns } from "./columns.ts";
import type { Raster } from "./raster.ts";
import type { Thinned } from "./thin.ts";

/** The rectangle to draw in, in device pixels, and the ranges of the axes that it shows. */
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
  xMin: number;
  xMax: number;
  yMin: number;
  yMax: number;
}

export interface Style {
  colour: string;
  width: number;
  dash: number[];
  /** The opacity of the area below the curve, from 0 to 1. */
  fill: number;
  opacity: number;
}

/** How the times of samples map to the x axis. */
export interface Course {
  /** Units of the axis per ms. */
  factor: number;
  /** Whether a value holds until the next one. */
  step: boolean;
  /** The time in ms until which the last value holds. */
  until: number;
}

/** Draws a curve over the existing content: into the raster where it is dense; otherwise onto the canvas, after copying the raster to it. */
export function stroke(context: CanvasRenderingContext2D, raster: Raster, box: Box, samples: Thinned, course: Course, style: Style): void {
  if (samples.length === 0) return;
  if (samples.dense) return paintColumns(raster, box, samples, course, style);
  raster.flush(context);
  context.save();
  context.globalAlpha = style.opacity;
  context.strokeStyle = style.colour;
  context.lineWidth = style.width;
  context.lineJoin = "bevel";
  context.setLineDash(style.dash);
  const path = line(box, samples, course);
  context.stroke(path);
  if (style.fill > 0) {
    context.globalAlpha = style.opacity * style.fill;
    context.fillStyle = style.colour;
    context.fill(closed(path, box, samples, course));
  }
  context.restore();
}

function line(box: Box, samples: Thinned, { factor, step, until }: Course): Path2D {
  const path = new Path2D();
  const xScale = (box.width / (box.xMax - box.xMin)) * factor;
  const xShift = box.left - (box.xMin / factor) * xScale;
  const yScale = box.height / (box.yMax - box.yMin);
  const bottom = box.top + box.height + box.yMin * yScale;
  let down = false;
  let before = 0;
  for (let index = 0; index < samples.length; index += 1) {
    const value = samples.value[index] as number;
    if (!Number.isFinite(value)) {
      down = false;
      continue;
    }
    const x = xShift + (samples.time[index] as number) * xScale;
    const y = bottom - value * yScale;
    if (!down) path.moveTo(x, y);
    else {
      if (step) path.lineTo(x, before);
      path.lineTo(x, y);
    }
    down = true;
    before = y;
  }
  if (down && step) path.lineTo(Math.max(xShift + until * xScale, xShift + (samples.time[samples.length - 1] as number) * xScale), before);
  return path;
}

function closed(path: Path2D, box: Box, samples: Thinned, { factor, step, until }: Course): Path2D {
  const area = new Path2D(path);
  const x = (time: number): number => box.left + ((time * factor - box.xMin) / (box.xMax - box.xMin)) * box.width;
  const bottom = box.top + box.height;
  const last = samples.time[samples.length - 1] as number;
  area.lineTo(x(step ? Math.max(until, last) : last), bottom);
  area.lineTo(x(samples.time[0] as number), bottom);
  area.closePath();
  return area;
}
