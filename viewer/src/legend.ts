/** The line above a plot: its curves, their values at the cursor, and switches that hide and show them. */
import { element, write } from "./dom.ts";
import { quantity } from "./format.ts";
import type { Curve, Trace } from "./model.ts";
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
  private readonly key = element("span", { class: "key" }, element("span", { class: "stroke" }), "A ", element("span", { class: "stroke dashed" }), "B");
  private scene: Scene | null = null;
  private unit = "";

  constructor(
    title: string,
    private readonly changed: () => void,
  ) {
    this.host = element("div", { class: "legend", role: "group", "aria-label": `${title}: curves` }, this.key);
  }

  get empty(): boolean {
    return this.entries.size === 0;
  }

  /** The curves of a trace that are to be drawn. */
  visible(trace: Trace): Curve[] {
    return this.ranked(trace).filter(({ id }) => !this.hidden.has(id));
  }

  /** Follows the traces on the screen. */
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
  }

  /** Shows the values at a place of the axis; null: none. */
  at(place: number | null): void {
    for (const [id, entry] of this.entries) write(entry.value, place === null ? "" : this.values(id, place));
  }

  private ranked(trace: Trace): Curve[] {
    return trace.curves.filter(({ unit }) => unit === this.unit).sort((one, other) => curveRank(one.id) - curveRank(other.id));
  }

  /** The values on show, for those who listen. */
  spoken(): string {
    const told = [...this.entries.values()].filter(({ value }) => value.textContent !== "");
    return told.map(({ title, value }) => `${title} ${value.textContent}`).join(", ");
  }

  private values(id: string, place: number): string {
    const values = (this.scene?.shown ?? []).map(({ trace, factor, tag }) => {
      const curve = trace.curves.find((one) => one.id === id);
      const value = curve?.at(place / factor) ?? null;
      return `${tag ? `${tag} ` : ""}${value === null ? "–" : quantity(value, this.unit)}`;
    });
    return values.join(" · ");
  }

  private add(curve: Curve): Entry {
    const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    const value = element("span", { class: "value" });
    const button = element("button", { type: "button", "aria-pressed": "true", title: "Hide or show this curve" }, swatch, curve.title, value);
    button.addEventListener("click", () => this.toggle(curve.id, button));
    this.key.before(button);
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
