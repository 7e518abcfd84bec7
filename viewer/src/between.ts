/** The panel that shows the fates of the packets between the two endpoints of a connection. */
import { element } from "./dom.ts";
import type { Clocks, Ends } from "./ends.ts";
import type { Tally } from "./fates.ts";
import { count, duration, percent } from "./format.ts";

export class Between {
  readonly host: HTMLElement;
  private readonly body = element("div");
  private ends: Ends | null = null;

  constructor() {
    this.host = element("section", { class: "panel panel-between", "aria-label": "Between the endpoints", hidden: true }, element("h2", {}, "Between the endpoints"), this.body);
  }

  show(ends: Ends | null): void {
    if (ends === this.ends) return;
    this.ends = ends;
    this.host.hidden = ends === null;
    if (ends === null) return this.body.replaceChildren();
    const { main, other, clocks } = ends;
    const what = `A (${main.trace.vantage}) and B (${other.trace.vantage}) are the two endpoints of one connection. `;
    this.body.replaceChildren(element("p", {}, what, aligned(clocks, main.tally)), table(main.tally, other.tally));
  }
}

/** How the clocks were aligned, and what had to be assumed for that. */
function aligned({ offset, roundTrip }: Clocks, main: Tally): string {
  const begins = offset === 0 ? "B begins at the same time as A" : `B begins ${duration(Math.abs(offset))} ${offset < 0 ? "after" : "before"} A`;
  if (roundTrip !== null) return `Clocks aligned by assuming equal minimum delays in both directions; ${begins}.`;
  const direction = main.least === null ? "B to A" : "A to B";
  return `Packets arrived only from ${direction}, so the delay cannot be separated from the clock offset; the minimum delay is assumed to be 0 ms; ${begins}.`;
}

function table(there: Tally, back: Tally): HTMLElement {
  const row = (name: string, tell: (tally: Tally) => string): HTMLElement =>
    element("tr", {}, element("th", { scope: "row" }, name), ...[there, back].map((tally) => element("td", {}, tell(tally))));
  const time = (value: number | null): string => (value === null ? "–" : duration(value));
  const head = element("tr", {}, ...["", "A → B", "B → A"].map((name) => element("th", { scope: "col" }, name)));
  const rows = [
    row("packets sent", ({ sent }) => count(sent)),
    row("never arrived", ({ neverArrived, sent, onTheirWay }) => `${count(neverArrived)} (${percent(neverArrived / Math.max(1, sent - onTheirWay))})`),
    row("declared lost, but arrived", ({ arrivedAfterAll }) => count(arrivedAfterAll)),
    row("minimum delay", ({ least }) => time(least)),
    row("median delay", ({ median }) => time(median)),
  ];
  if (there.onTheirWay + back.onTheirWay > 0) rows.splice(2, 0, row("in transit at the end", ({ onTheirWay }) => count(onTheirWay)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}
