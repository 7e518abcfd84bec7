/** The line above a plot: its curves, their values at the cursor, and buttons that hide and show them. */
import { element, write } from "./dom.ts";
import { quantity } from "./format.ts";
import { sampledFrom, type Curve, type Trace } from "./model.ts";
import type { Scene } from "./plot.ts";
import { curveColour, curveRank } from "./palette.ts";

interface Entry {
  readonly button: HTMLButtonElement;
  readonly swatch: HTMLElement;
  readonly value: HTMLElement;
  title: string;
}

export class Legend {
  readonly host: HTMLElement;
  private readonly entries = new Map<string, Entry>();
  private readonly hidden = new Set<string>();
  /** The curves that were added before. A detail is hidden when it first appears, later only if the reader hid it. */
  private readonly met = new Set<string>();
  private readonly more = element("button", { type: "button", class: "more", title: "Internal variables of the congestion controller", onclick: () => this.unfold() });
  private unfolded = false;
  private readonly key = element("span", { class: "key" }, element("span", { class: "stroke" }), "A ", element("span", { class: "stroke dashed" }), "B");
  private readonly initial = element("span", { class: "initial", hidden: true });
  private scene: Scene | null = null;
  private unit = "";

  constructor(
    title: string,
    private readonly changed: () => void,
  ) {
    this.host = element("div", { class: "legend", role: "group", "aria-label": `${title}: curves` }, this.more, this.initial, this.key);
    this.count(0);
  }

  get empty(): boolean {
    return this.entries.size === 0;
  }

  /** The curves of a trace that are to be drawn. */
  visible(trace: Trace): Curve[] {
    return this.ranked(trace).filter(({ id }) => !this.hidden.has(id));
  }

  /** Updates the legend for the traces on the screen. */
  show(scene: Scene, unit: string): void {
    this.scene = scene;
    this.unit = unit;
    const found = scene.shown.flatMap(({ trace }) => this.ranked(trace));
    const curves = new Map(found.map((curve) => [curve.id, curve]));
    for (const [id, entry] of this.entries) {
      if (curves.has(id)) continue;
      entry.button.remove();
      this.entries.delete(id);
    }
    this.key.hidden = scene.shown.length < 2;
    for (const [id, curve] of curves) {
      const entry = this.entries.get(id) ?? this.add(curve);
      entry.swatch.style.background = curveColour(id, scene.theme);
    }
    this.showInitial(scene);
    this.count([...curves.values()].filter(({ detail }) => detail).length);
  }

  /** Shows a note if the RTT begins with an initial value, which is not used for the scale. */
  private showInitial({ shown }: Scene): void {
    const smoothed = shown.flatMap(({ trace }) => trace.curves.filter((curve) => curve.unit === this.unit && curve.id === "smoothed_rtt" && (curve.time[0] as number) < sampledFrom(trace, curve)));
    const first = smoothed[0];
    this.initial.hidden = first === undefined;
    if (first !== undefined) write(this.initial, `${quantity(first.value[0] as number, this.unit)} is the initial RTT (no sample yet); off scale`);
  }

  /** Sets the label of the button that shows this many hidden curves. */
  private count(details: number): void {
    this.more.hidden = details === 0;
    write(this.more, this.unfolded ? "fewer" : `${details} more`);
    this.more.setAttribute("aria-expanded", String(this.unfolded));
    this.host.classList.toggle("unfolded", this.unfolded);
  }

  private unfold(): void {
    this.unfolded = !this.unfolded;
    this.changed();
  }

  /** Shows the values at a position on the axis; null: none. */
  at(place: number | null): void {
    for (const [id, entry] of this.entries) write(entry.value, place === null ? "" : this.values(id, place));
  }

  private ranked(trace: Trace): Curve[] {
    return trace.curves.filter(({ unit }) => unit === this.unit).sort((one, other) => curveRank(one.id) - curveRank(other.id));
  }

  /** The shown values as text for screen readers. */
  spoken(): string {
    const visible = [...this.entries.values()].filter(({ value }) => value.textContent !== "");
    return visible.map(({ title, value }) => `${title} ${value.textContent}`).join(", ");
  }

  private values(id: string, place: number): string {
    const values = (this.scene?.shown ?? []).map(({ trace, factor, tag }) => {
      const curve = trace.curves.find((one) => one.id === id);
      const value = curve?.at(place / factor) ?? null;
      const initial = curve !== undefined && value !== null && place / factor < sampledFrom(trace, curve) ? " (initial, no sample yet)" : "";
      return `${tag ? `${tag} ` : ""}${value === null ? "–" : quantity(value, this.unit)}${initial}`;
    });
    return values.join(" · ");
  }

  private add(curve: Curve): Entry {
    const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    const value = element("span", { class: "value" });
    if (curve.detail && !this.met.has(curve.id)) this.hidden.add(curve.id);
    this.met.add(curve.id);
    const button = element("button", { type: "button", "aria-pressed": String(!this.hidden.has(curve.id)), title: "Show or hide this curve" }, swatch, curve.title, value);
    button.addEventListener("click", () => this.toggle(curve.id, button));
    button.classList.toggle("detail", curve.detail);
    this.more.before(button);
    const entry = { button, swatch, value, title: curve.title };
    this.entries.set(curve.id, entry);
    return entry;
  }

  private toggle(id: string, button: HTMLButtonElement): void {
    if (this.hidden.has(id)) this.hidden.delete(id);
    else this.hidden.add(id);
    button.setAttribute("aria-pressed", String(!this.hidden.has(id)));
    this.changed();
  }
}
