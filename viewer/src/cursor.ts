/** The cursor: the position under the mouse, or a pinned position. */

export class Cursor {
  /** Positions on the axis; null: none. */
  hover: number | null = null;
  pin: number | null = null;

  constructor(private readonly changed: () => void) {}

  /** The position whose values are shown. */
  get at(): number | null {
    return this.hover ?? this.pin;
  }

  /** The position around which packets are listed: a pinned one does not change while the mouse moves to the list. */
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
