/** The position of the x axis on the screen, in CSS pixels: the same for plots, lanes and the marks drawn over them. */
import type { View } from "./view.ts";

export class Geometry {
  /** The total width, and the space left and right of the plots. */
  width = 800;
  left = 84;
  right = 14;

  constructor(private readonly view: View) {}

  resize(width: number): void {
    this.width = width;
    this.left = width < 560 ? 64 : 84;
  }

  get plotWidth(): number {
    return Math.max(1, this.width - this.left - this.right);
  }

  toPixel(place: number): number {
    return this.left + ((place - this.view.min) / this.view.span) * this.plotWidth;
  }

  toPlace(pixel: number): number {
    return this.view.min + ((pixel - this.left) / this.plotWidth) * this.view.span;
  }

  /** Whether a pixel is within the plots, not over their axes. */
  covers(pixel: number): boolean {
    return pixel >= this.left && pixel <= this.width - this.right;
  }
}
