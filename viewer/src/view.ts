/** The part of the x axis that is in view, the same for all plots and lanes. The unit is that of the axis, ms or round trips. */

export class View {
  min = 0;
  max = 1;
  private low = 0;
  private high = 1;
  /** The minimum length of the view. */
  private shortest = 1e-3;

  constructor(private readonly changed: () => void) {}

  get span(): number {
    return this.max - this.min;
  }

  /** Whether everything is in view. */
  get whole(): boolean {
    return this.min <= this.low && this.max >= this.high;
  }

  /** Sets the whole range, and the shortest range to zoom to. */
  bound(low: number, high: number, shortest: number): void {
    this.low = low;
    this.high = Math.max(high, low + shortest);
    this.shortest = shortest;
  }

  /** Shows a range, moved and cut so that it lies within the whole range. */
  show(from: number, to: number): void {
    const span = Math.min(Math.max(to - from, this.shortest), this.high - this.low);
    const middle = (from + to) / 2;
    const min = Math.min(Math.max(middle - span / 2, this.low), this.high - span);
    if (min === this.min && min + span === this.max) return;
    this.min = min;
    this.max = min + span;
    this.changed();
  }

  all(): void {
    this.show(this.low, this.high);
  }

  /** Makes the range `factor` times as long; `at` keeps its position on the screen. */
  zoom(factor: number, at: number): void {
    const span = Math.min(Math.max(this.span * factor, this.shortest), this.high - this.low);
    const share = (at - this.min) / this.span;
    this.show(at - share * span, at + (1 - share) * span);
  }

  /** Moves by a share of the range. */
  pan(share: number): void {
    const by = this.span * share;
    this.show(this.min + by, this.max + by);
  }
}
