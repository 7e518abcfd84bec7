/** The bar at the top: selection of traces and of the axis, and buttons for everything that also has a key. */
import { element } from "./dom.ts";
import { count, duration, shortName } from "./format.ts";
import type { Axis } from "./overlay.ts";
import type { Trace } from "./model.ts";

/** The actions that the bar calls. */
export interface Actions {
  choose(index: number): void;
  /** null: none. */
  overlay(index: number | null): void;
  axis(axis: Axis): void;
  all(): void;
  ruler(): void;
  follow(): void;
  theme(): void;
  help(): void;
}

export class HeaderBar {
  readonly host: HTMLElement;
  private readonly main = element("select", { "aria-label": "Trace" });
  private readonly other = element("select", { "aria-label": "Overlay" });
  private overlays: HTMLElement[] = [];
  /** The main trace for which the list of overlays was built. */
  private offered: number | null = null;
  private readonly otherLabel = element("label", {}, "overlay ", this.other);
  private readonly about = element("p", { class: "about" });
  private readonly axes: Record<Axis, HTMLButtonElement>;
  private readonly ruler: HTMLButtonElement;
  private readonly following: HTMLButtonElement;
  private readonly theme: HTMLButtonElement;

  constructor(actions: Actions) {
    const button = (text: string, hint: string, run: () => void): HTMLButtonElement => element("button", { type: "button", title: hint, onclick: run }, text);
    this.axes = {
      time: button("time", "Show time on the axis (t)", () => actions.axis("time")),
      round_trips: button("round trips", "Show round trips on the axis (t)", () => actions.axis("round_trips")),
    };
    this.ruler = button("Ruler", "Measure between two points (r, or Shift + drag)", actions.ruler);
    this.following = button("Follow", "Keep the newest events in view (f)", actions.follow);
    this.following.hidden = true;
    this.theme = button("auto", "Theme: system, light, dark (d)", actions.theme);
    this.main.addEventListener("change", () => actions.choose(Number(this.main.value)));
    this.other.addEventListener("change", () => actions.overlay(this.other.value === "" ? null : Number(this.other.value)));
    this.host = element(
      "header",
      {},
      element("h1", {}, "Clearway"),
      element("div", { class: "traces" }, this.main, this.otherLabel),
      this.about,
      element("div", { class: "tools", role: "toolbar", "aria-label": "View" },
        element("div", { class: "switch", role: "group", "aria-label": "Unit of the axis" }, this.axes.time, this.axes.round_trips),
        this.following, button("All", "Show the whole trace (0, or double-click)", actions.all), this.ruler, this.theme, button("?", "Help (?)", actions.help)),
    );
  }

  /** Sets the names of the traces to choose from. */
  names(names: string[]): void {
    const options = (): HTMLElement[] => names.map((name, index) => element("option", { value: String(index), title: name }, shortName(name)));
    this.main.replaceChildren(...options());
    this.overlays = [element("option", { value: "" }, "none"), ...options()];
    this.offered = null;
    this.otherLabel.hidden = names.length < 2;
  }

  /** Offers every trace except the main one as an overlay. */
  private offer(main: number): void {
    if (this.offered === main) return;
    this.offered = main;
    this.other.replaceChildren(...this.overlays.filter((_, index) => index !== main + 1));
  }

  show(state: { main: number; other: number | null; axis: Axis; countsRoundTrips: boolean; ruler: boolean; live: boolean; follows: boolean; theme: string }): void {
    this.main.value = String(state.main);
    this.main.title = this.main.selectedOptions[0]?.title ?? "";
    this.other.title = this.other.selectedOptions[0]?.title ?? "";
    this.offer(state.main);
    this.other.value = state.other === null ? "" : String(state.other);
    for (const axis of ["time", "round_trips"] as const) this.axes[axis].setAttribute("aria-pressed", String(state.axis === axis));
    this.axes.round_trips.disabled = !state.countsRoundTrips;
    this.ruler.setAttribute("aria-pressed", String(state.ruler));
    this.following.hidden = !state.live;
    this.following.setAttribute("aria-pressed", String(state.follows));
    this.theme.textContent = state.theme;
    this.theme.setAttribute("aria-label", `Theme: ${state.theme}`);
  }

  /** Shows the properties of the main trace. */
  describe(trace: Trace, live: boolean): void {
    const seen = trace.vantage === "unknown" ? "" : `recorded by the ${trace.vantage}`;
    const facts = [seen, trace.dialect, duration(trace.duration), live ? "live" : `${count(trace.events)} events`];
    this.about.textContent = facts.filter((fact) => fact !== "").join(" · ");
    this.about.title = this.about.textContent;
  }
}
