/** The panel that shows the time spent in each state and blocked for each reason within the view, and the transitions between states. */
import { element } from "./dom.ts";
import { count, duration, percent, roundTrips, words } from "./format.ts";
import { stay, type Stay } from "./dwell.ts";
import type { Lane } from "./model.ts";
import type { Shown } from "./overlay.ts";
import { stateColour, type Theme } from "./palette.ts";

/** How long the view has to be unchanged before the panel is updated, in ms. */
const REST = 120;
/** The update interval of the panel while the view follows a live trace and so changes all the time, in ms. */
const PACE = 1000;

export class States {
  readonly host: HTMLElement;
  private readonly body = element("div");
  private waiting = 0;
  private written = 0;

  constructor() {
    this.host = element("section", { class: "panel panel-states", "aria-label": "Time spent in each state" }, element("h2", {}, "Time in view"), this.body);
  }

  /** Updates the panel when the view stops changing; if it `follows` a live trace, at a fixed interval. */
  draw(shown: Shown[], theme: Theme, from: number, to: number, follows: boolean): void {
    clearTimeout(this.waiting);
    const due = this.written + PACE - performance.now();
    this.waiting = setTimeout(() => this.write(shown, theme, from, to), follows ? Math.max(0, Math.min(due, REST)) : REST);
  }

  private write(shown: Shown[], theme: Theme, from: number, to: number): void {
    this.written = performance.now();
    const blocks = shown.flatMap((one) => {
      const [begin, end] = [Math.max(0, from / one.factor), Math.min(one.trace.duration, to / one.factor)];
      return one.trace.lanes.filter(({ length }) => length > 0).map((lane) => block(one, lane, stay(lane, begin, end), end - begin, theme));
    });
    this.body.replaceChildren(...(blocks.length > 0 ? blocks : [element("p", { class: "none" }, "The trace contains no states.")]));
  }
}

function block(shown: Shown, lane: Lane, stayed: Stay, span: number, theme: Theme): HTMLElement {
  const heading = element("h3", {}, ...(shown.tag ? [element("span", { class: "tag" }, shown.tag), " "] : []), lane.title);
  if (stayed.dwells.length === 0) return element("div", { class: "stay" }, heading, element("p", { class: "none" }, "None in view."));
  const parts: Node[] = [heading, bar(stayed, theme), table(stayed, theme)];
  if (lane.id === "congestion_state" && stayed.transitions > 0) parts.push(pace(shown, stayed, span), matrix(stayed));
  return element("div", { class: "stay" }, ...parts);
}

function bar(stayed: Stay, theme: Theme): HTMLElement {
  const parts = stayed.dwells.map(({ name, share }) => {
    const part = element("span", { title: `${words(name)}: ${percent(share)}` });
    part.style.background = stateColour(name, theme);
    part.style.flexGrow = String(share);
    return part;
  });
  const rest = 1 - stayed.dwells.reduce((sum, { share }) => sum + share, 0);
  const gap = element("span");
  gap.style.flexGrow = String(Math.max(0, rest));
  return element("div", { class: "shares", "aria-hidden": "true" }, ...parts, gap);
}

function table(stayed: Stay, theme: Theme): HTMLElement {
  const head = element("tr", {}, ...["", "share", "count", "median", "longest"].map((name) => element("th", { scope: "col" }, name)));
  const rows = stayed.dwells.map((dwell) => {
    const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = stateColour(dwell.name, theme);
    const cells = [percent(dwell.share), count(dwell.visits), duration(dwell.median), duration(dwell.longest)];
    return element("tr", {}, element("th", { scope: "row" }, swatch, words(dwell.name)), ...cells.map((cell) => element("td", {}, cell)));
  });
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

/** The number of state changes: a period near the round-trip time indicates the bug that this viewer was built to find. */
function pace(shown: Shown, stayed: Stay, span: number): HTMLElement {
  const inWords = (period: number): string => `${duration(period)}${shown.trace.roundTrip === null ? "" : ` = ${roundTrips(period / shown.trace.roundTrip)}`}`;
  const period = span / stayed.transitions;
  const back = stayed.transitions > 3 ? `; a full cycle takes ${inWords(period * 2)}` : "";
  return element("p", {}, stayed.transitions === 1 ? "1 state change." : `${count(stayed.transitions)} state changes, one every ${inWords(period)}${back}.`);
}

function matrix(stayed: Stay): HTMLElement {
  const names = stayed.dwells.map(({ name }) => words(name));
  const most = Math.max(...stayed.matrix.flat());
  const head = element("tr", {}, element("th", {}, "from ↓ to →"), ...names.map((name) => element("th", { scope: "col" }, name)));
  const rows = names.map((name, from) =>
    element("tr", {}, element("th", { scope: "row" }, name), ...(stayed.matrix[from] as number[]).map((times) => cell(times, most))),
  );
  return element("table", { class: "matrix" }, element("caption", {}, "Transitions between states"), element("thead", {}, head), element("tbody", {}, ...rows));
}

function cell(times: number, most: number): HTMLElement {
  const made = element("td", {}, times === 0 ? "·" : count(times));
  if (times > 0) made.style.setProperty("--heat", `${Math.round(8 + (times / most) * 32)}%`);
  return made;
}
