/** Where the x axis lies on the screen: the same for plots, lanes and what is drawn over them. In CSS pixels. */
import type { View } from "./view.ts";

export class Geometry {
  /** The width of all, and the space left and right of the plots. */
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

  /** Whether a pixel lies over the plots, not over their axes. */
  covers(pixel: number): boolean {
    return pixel >= this.left && pixel <= this.width - this.right;
  }
}
