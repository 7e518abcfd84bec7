/** Where the reader points: under the mouse, or at a place that was kept. */

export class Cursor {
  /** Places of the axis; null: nowhere. */
  hover: number | null = null;
  pin: number | null = null;

  constructor(private readonly changed: () => void) {}

  /** What values are shown of. */
  get at(): number | null {
    return this.hover ?? this.pin;
  }

  /** What the packets are listed around: a kept place stays while the mouse moves to the list. */
  get kept(): number | null {
    return this.pin ?? this.hover;
  }

  move(place: number | null): void {
    if (this.hover === place) return;
    this.hover = place;
    this.changed();
  }

  keep(place: number | null): void {
    this.pin = place;
    this.changed();
  }

  /** Follows a trace that is moved on the axis. */
  shift(by: number): void {
    this.hover = null;
    if (this.pin !== null) this.pin += by;
  }

  /** Follows a change of the axis' unit. */
  rescale(by: number): void {
    this.hover = null;
    if (this.pin !== null) this.pin *= by;
  }
}
