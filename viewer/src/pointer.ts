/** Mouse and touch input on plots and lanes. */
import type { Geometry } from "./geometry.ts";
import type { Stretch } from "./glass.ts";
import type { View } from "./view.ts";

/** Receives pointer actions. Places are positions on the axis, heights are positions on the screen. */
export interface PointerListener {
  hover(place: number | null): void;
  click(place: number, clientX: number, clientY: number): void;
  /** The ruler was drawn. */
  measure(from: number, to: number, fromY: number, toY: number): void;
  /** The selection changed; null: there is none. */
  select(stretch: Stretch): void;
  /** The reader moved the view. */
  moved(): void;
}

/** How far a pointer has to move for a drag, in pixels. */
const SLACK = 4;

interface Drag {
  readonly place: number;
  readonly x: number;
  readonly y: number;
  readonly measures: boolean;
  moved: boolean;
}

export class Pointer {
  private drag: Drag | null = null;
  private readonly fingers = new Map<number, { x: number; first: number }>();
  private pinched = false;

  constructor(
    private readonly host: HTMLElement,
    private readonly view: View,
    private readonly geometry: Geometry,
    private readonly listener: PointerListener,
  ) {
    host.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    host.addEventListener("dblclick", (event) => this.inside(event) && this.view.all());
    host.addEventListener("pointerdown", (event) => this.down(event));
    host.addEventListener("pointermove", (event) => this.move(event));
    host.addEventListener("pointerup", (event) => this.up(event));
    host.addEventListener("pointercancel", (event) => this.cancel(event));
    host.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.listener.hover(null));
  }

  private x(event: MouseEvent): number {
    return event.clientX - this.host.getBoundingClientRect().left;
  }

  private place(event: MouseEvent): number {
    const place = this.geometry.toPlace(this.x(event));
    return Math.min(Math.max(place, this.view.min), this.view.max);
  }

  /** Whether an event is over plots or lanes, but not over a button of the legend or the ruler's box. */
  private inside(event: MouseEvent): boolean {
    return this.geometry.covers(this.x(event)) && !(event.target as Element).closest("button, aside");
  }

  private wheel(event: WheelEvent): void {
    if ((event.target as Element).closest("aside") || !this.geometry.covers(this.x(event))) return;
    event.preventDefault();
    this.listener.moved();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const [sideways, upright] = [event.deltaX * lines, event.deltaY * lines];
    if (event.shiftKey || Math.abs(sideways) > Math.abs(upright)) this.view.pan((sideways || upright) / this.geometry.plotWidth);
    else this.view.zoom(Math.exp(Math.min(Math.max(upright, -300), 300) * 0.002), this.place(event));
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0 || !this.inside(event)) return;
    if (event.pointerType === "touch") {
      if (this.fingers.size === 0) this.pinched = false;
      this.fingers.set(event.pointerId, { x: this.x(event), first: this.x(event) });
      return;
    }
    this.host.setPointerCapture(event.pointerId);
    this.drag = { place: this.place(event), x: event.clientX, y: event.clientY, measures: event.shiftKey, moved: false };
  }

  private move(event: PointerEvent): void {
    if (event.pointerType === "touch") return this.moveFinger(event);
    if (this.drag !== null) {
      this.drag.moved ||= Math.hypot(event.clientX - this.drag.x, event.clientY - this.drag.y) > SLACK;
      if (this.drag.moved && this.drag.measures) this.listener.measure(this.drag.place, this.place(event), this.drag.y, event.clientY);
      else if (this.drag.moved) this.listener.select([this.drag.place, this.place(event)]);
    }
    this.listener.hover(this.drag !== null || this.inside(event) ? this.place(event) : null);
  }

  private up(event: PointerEvent): void {
    if (event.pointerType === "touch") return this.liftFinger(event);
    const drag = this.drag;
    this.drag = null;
    if (drag === null) return;
    this.listener.select(null);
    if (!drag.moved) this.listener.click(drag.place, event.clientX, event.clientY);
    else if (!drag.measures && Math.abs(event.clientX - drag.x) > SLACK) {
      this.listener.moved();
      this.view.show(...ordered(drag.place, this.place(event)));
    }
  }

  private cancel(event: PointerEvent): void {
    this.fingers.delete(event.pointerId);
    this.drag = null;
    this.listener.select(null);
  }

  /** One finger pans, two fingers zoom. */
  private moveFinger(event: PointerEvent): void {
    const finger = this.fingers.get(event.pointerId);
    if (finger === undefined) return;
    this.listener.moved();
    const x = this.x(event);
    const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other === undefined) {
      if (Math.abs(x - finger.first) > SLACK) this.view.pan((finger.x - x) / this.geometry.plotWidth);
    } else {
      this.pinched = true;
      const [before, after] = [Math.abs(finger.x - other.x), Math.abs(x - other.x)];
      const middle = this.geometry.toPlace((x + other.x) / 2);
      if (before > 10 && after > 10) this.view.zoom(before / after, middle);
      this.view.pan((finger.x - x) / 2 / this.geometry.plotWidth);
    }
    finger.x = x;
  }

  private liftFinger(event: PointerEvent): void {
    const finger = this.fingers.get(event.pointerId);
    this.fingers.delete(event.pointerId);
    if (finger === undefined || this.pinched || Math.abs(this.x(event) - finger.first) > SLACK) return;
    this.listener.click(this.place(event), event.clientX, event.clientY);
  }
}

function ordered(one: number, other: number): [number, number] {
  return one < other ? [one, other] : [other, one];
}
