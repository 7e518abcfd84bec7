/** The contents of lanes on a canvas. */
import { words } from "./format.ts";
import type { Lane, Marks } from "./model.ts";
import type { Finding } from "./protocol.ts";
import { markColour, stateColour, type Theme } from "./palette.ts";
import { colourOf, type Colour, type Raster } from "./raster.ts";
import { firstAtOrAfter, lastAtOrBefore } from "./search.ts";
import { labelsOf, runsOf, type Run } from "./turns.ts";
import type { View } from "./view.ts";

/** Segments narrower than this, in pixels, cannot be distinguished. */
const LEGIBLE = 8;

export interface Ink {
  readonly text: string;
  readonly track: string;
  readonly accent: string;
  readonly theme: Theme;
}

/** The position of a row, in CSS pixels, and the range of the axis that it shows. */
export interface Area {
  readonly context: CanvasRenderingContext2D;
  readonly raster: Raster;
  /** Device pixels per CSS pixel. */
  readonly ratio: number;
  readonly top: number;
  readonly height: number;
  readonly left: number;
  readonly width: number;
  readonly view: View;
  readonly factor: number;
  readonly ink: Ink;
}

function toPixel(area: Area, time: number): number {
  return area.left + ((time * area.factor - area.view.min) / area.view.span) * area.width;
}

function cut(area: Area, pixel: number): number {
  return Math.min(Math.max(pixel, area.left), area.left + area.width);
}

/** The segments in view. */
function visible(area: Area, lane: Lane): [number, number] {
  const from = area.view.min / area.factor;
  const to = area.view.max / area.factor;
  const begin = Math.max(0, lastAtOrBefore(lane.begin, lane.length, from));
  return [begin, firstAtOrAfter(lane.begin, lane.length, to, begin)];
}

/**
 * Draws segments as boxes with their names. Where states alternate too fast to be distinguished, each pixel column is divided in proportion to their
 * time; a state that occurred is at least one pixel high, and a label lists the states and the number of changes.
 */
export function paintStates(area: Area, lane: Lane): void {
  const [begin, end] = visible(area, lane);
  const shortest = (LEGIBLE / area.width) * (area.view.span / area.factor);
  for (const run of runsOf(lane, begin, end, shortest)) {
    if (!run.flaps) for (let index = run.begin; index < run.end; index += 1) paintSegment(area, lane, index);
    else {
      paintShares(area, lane, run.begin, run.end);
      paintCount(area, lane, run);
    }
  }
}

/** Labels a run with its alternating states and the number of changes, on an opaque background, because the run has many colors. */
function paintCount(area: Area, lane: Lane, run: Run): void {
  const { context, ink } = area;
  if (area.height < 12) return;
  const left = cut(area, toPixel(area, lane.begin[run.begin] as number));
  const right = cut(area, toPixel(area, Math.min(lane.end[run.end - 1] as number, Number.MAX_VALUE)));
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  const label = labelsOf(lane, run).find((one) => context.measureText(one).width + 12 <= right - left);
  if (label === undefined) return;
  context.fillStyle = ink.track;
  context.fillRect(left + 2, area.top + 1, context.measureText(label).width + 8, area.height - 2);
  context.fillStyle = ink.text;
  context.fillText(label, left + 6, area.top + area.height / 2 + 0.5);
}

function paintSegment(area: Area, lane: Lane, index: number): void {
  const left = cut(area, toPixel(area, lane.begin[index] as number));
  const right = cut(area, toPixel(area, Math.min(lane.end[index] as number, Number.MAX_VALUE)));
  if (right <= area.left && (lane.end[index] as number) !== Infinity) return;
  const { context, ink } = area;
  const name = lane.name(index);
  const width = Math.max(1, right - left);
  context.fillStyle = stateColour(name, ink.theme);
  context.fillRect(left, area.top, width > 3 ? width - 0.5 : width, area.height);
  if (width < 18 || area.height < 12) return;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  if (lengthOf(context, name) + 8 > width) return;
  context.fillStyle = ink.text;
  context.fillText(words(name), left + 4, area.top + area.height / 2 + 0.5);
}

/** Cached widths of names on the screen: measuring takes longer than drawing. */
const lengths = new Map<string, number>();

function lengthOf(context: CanvasRenderingContext2D, name: string): number {
  let length = lengths.get(name);
  if (length === undefined) {
    length = context.measureText(words(name)).width;
    lengths.set(name, length);
  }
  return length;
}

function paintShares(area: Area, lane: Lane, begin: number, end: number): void {
  const columns = Math.floor(area.width * area.ratio);
  const states = lane.names.length;
  const shares = new Float32Array(columns * states);
  const toColumn = (time: number): number => (toPixel(area, time) - area.left) * area.ratio;
  for (let index = begin; index < end; index += 1) {
    const left = Math.max(0, toColumn(lane.begin[index] as number));
    const right = Math.min(columns, toColumn(Math.min(lane.end[index] as number, Number.MAX_VALUE)));
    for (let column = Math.floor(left); column < columns && (column < right || column === Math.floor(left)); column += 1) {
      const share = Math.min(right, column + 1) - Math.max(left, column);
      const cell = column * states + (lane.state[index] as number);
      shares[cell] = (shares[cell] as number) + Math.max(share, 1e-3);
    }
  }
  paintColumns(area, shares, lane.names.map((name) => colourOf(stateColour(name, area.ink.theme))));
}

/** Divides each column of device pixels among the states in proportion to their time, one below the other; each state that occurred is at least one pixel high. */
function paintColumns(area: Area, shares: Float32Array, colours: Colour[]): void {
  const { context, raster, ratio } = area;
  const left = Math.round(area.left * ratio);
  const begin = Math.round(area.top * ratio);
  const bottom = Math.round((area.top + area.height) * ratio);
  const columns = shares.length / colours.length;
  raster.begin(left, begin, columns, bottom - begin);
  for (let column = 0; column < columns; column += 1) {
    const here = shares.subarray(column * colours.length, (column + 1) * colours.length);
    const sum = Math.max(1, here.reduce((total, share) => total + share, 0));
    let top = begin;
    for (const [state, colour] of colours.entries()) {
      const share = here[state] as number;
      if (share === 0) continue;
      const height = Math.max(1, (share / sum) * (bottom - begin));
      const from = Math.min(Math.round(top), bottom - 1);
      raster.fill(left + column, from, 1, Math.min(Math.max(1, Math.round(top + height) - from), bottom - from), colour, 1);
      top += height;
    }
  }
  raster.flush(context);
}

/** Draws a line in each pixel column that contains events, darker where there are more; an isolated event gets a symbol. */
export function paintMarks(area: Area, marks: Marks): void {
  const { context } = area;
  context.fillStyle = context.strokeStyle = markColour(marks.id, area.ink.theme);
  context.lineWidth = 1.5;
  const perPixel = area.view.span / area.factor / area.width;
  const last = area.view.max / area.factor;
  let index = firstAtOrAfter(marks.time, marks.length, area.view.min / area.factor);
  let before = -Infinity;
  while (index < marks.length && (marks.time[index] as number) <= last) {
    const time = marks.time[index] as number;
    const pixel = Math.floor(toPixel(area, time));
    const next = firstAtOrAfter(marks.time, marks.length, time + perPixel, index + 1);
    const room = Math.min(pixel - before, next < marks.length ? toPixel(area, marks.time[next] as number) - pixel : Infinity);
    if (next - index === 1 && room > 9) sign(area, marks.id, pixel + 0.5);
    else {
      context.globalAlpha = Math.min(1, 0.55 + (next - index) * 0.1);
      context.fillRect(pixel, area.top, 1.5, area.height);
      context.globalAlpha = 1;
    }
    before = pixel;
    index = next;
  }
}

/** Corners in units of half the height; all other kinds are diamonds. */
const SHAPES: Record<string, readonly (readonly [x: number, y: number])[]> = {
  congestion_event: [[-1, -1], [1, -1], [0, 1]],
  pto: [[-1, 1], [1, 1], [0, -1]],
  never_arrived: [[-0.8, -0.8], [0.8, -0.8], [0.8, 0.8], [-0.8, 0.8]],
};
const DIAMOND = [[-1, 0], [0, -1], [1, 0], [0, 1]] as const;

/** Each kind of mark has a shape: a cross for losses, a clock hand, a triangle, a ring, a disc, a square, a diamond. */
function sign({ context, top, height }: Area, id: string, x: number): void {
  const y = top + height / 2;
  const r = height / 2 - 1.5;
  context.beginPath();
  if (id === "lost" || id === "lost_counted") {
    context.moveTo(x - r, y - r);
    context.lineTo(x + r, y + r);
    context.moveTo(x + r, y - r);
    context.lineTo(x - r, y + r);
    context.stroke();
  } else if (id === "spurious" || id === "arrived_after_all") {
    context.arc(x, y, r - 0.5, 0, Math.PI * 2);
    if (id === "spurious") context.stroke();
    else context.fill();
  } else {
    (SHAPES[id] ?? DIAMOND).forEach(([dx, dy]) => context.lineTo(x + dx * r, y + dy * r));
    context.fill();
  }
}

/** Draws a bar for each finding; the selected one is filled. */
export function paintFindings(area: Area, findings: Finding[], selected: Finding | null): void {
  const { context, ink } = area;
  context.fillStyle = ink.accent;
  for (const finding of findings) {
    const begin = toPixel(area, finding.begin_ms);
    const end = toPixel(area, finding.end_ms);
    if (end < area.left || begin > area.left + area.width) continue;
    const left = cut(area, begin);
    context.globalAlpha = finding === selected ? 1 : 0.45;
    context.fillRect(left, area.top, Math.max(3, cut(area, end) - left), area.height);
  }
  context.globalAlpha = 1;
}
