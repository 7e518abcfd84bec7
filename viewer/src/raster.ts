/**
 * Pixels that are computed here and copied to a canvas in one call. This draws thousands of bars in half the time that a browser
 * needs for as many rectangles.
 */

/** The components of a color, each from 0 to 255. */
export interface Colour {
  readonly red: number;
  readonly green: number;
  readonly blue: number;
}

/** Parses a color of the form `#rrggbb`. */
export function colourOf(hex: string): Colour {
  const parts = Number.parseInt(hex.slice(1), 16);
  if (!/^#[0-9a-f]{6}$/i.test(hex)) throw new Error(`${hex} is not a colour of the form #rrggbb`);
  return { red: parts >> 16, green: (parts >> 8) & 0xff, blue: parts & 0xff };
}

export class Raster {
  private readonly scratch = document.createElement("canvas");
  private image = new ImageData(1, 1);
  private left = 0;
  private top = 0;
  private empty = true;

  /** Starts an empty raster for this part of the canvas, in device pixels. */
  begin(left: number, top: number, width: number, height: number): void {
    this.left = Math.round(left);
    this.top = Math.round(top);
    const [columns, rows] = [Math.max(1, Math.round(width)), Math.max(1, Math.round(height))];
    if (this.image.width !== columns || this.image.height !== rows) {
      this.image = new ImageData(columns, rows);
      this.scratch.width = columns;
      this.scratch.height = rows;
    } else if (!this.empty) this.image.data.fill(0);
    this.empty = true;
  }

  /** Fills a rectangle of whole device pixels, over the existing content. */
  fill(left: number, top: number, width: number, height: number, colour: Colour, opacity: number): void {
    const { width: columns, height: rows, data } = this.image;
    const from = Math.max(0, left - this.left);
    const to = Math.min(columns, left - this.left + width);
    const last = Math.min(rows, top - this.top + height);
    for (let row = Math.max(0, top - this.top); row < last; row += 1) {
      for (let at = (row * columns + from) * 4, end = (row * columns + to) * 4; at < end; at += 4) blend(data, at, colour, opacity);
    }
    this.empty = false;
  }

  /** Copies the raster to the canvas, over the existing content, and clears it. */
  flush(context: CanvasRenderingContext2D): void {
    if (this.empty) return;
    this.scratch.getContext("2d", { willReadFrequently: true })?.putImageData(this.image, 0, 0);
    context.save();
    context.resetTransform();
    context.drawImage(this.scratch, this.left, this.top);
    context.restore();
    this.image.data.fill(0);
    this.empty = true;
  }
}

/** Blends a color over the pixel at index `at` ("source-over", not premultiplied). */
export function blend(data: Uint8ClampedArray, at: number, { red, green, blue }: Colour, opacity: number): void {
  const below = ((data[at + 3] as number) / 255) * (1 - opacity);
  const alpha = opacity + below;
  if (below === 0 || alpha === 0) {
    data[at] = red;
    data[at + 1] = green;
    data[at + 2] = blue;
  } else {
    data[at] = (red * opacity + (data[at] as number) * below) / alpha;
    data[at + 1] = (green * opacity + (data[at + 1] as number) * below) / alpha;
    data[at + 2] = (blue * opacity + (data[at + 2] as number) * below) / alpha;
  }
  data[at + 3] = alpha * 255;
}
