/** The panel that says what became of the packets between the two ends of a connection. */
import { element } from "./dom.ts";
import type { Clocks, Ends } from "./ends.ts";
import type { Tally } from "./fates.ts";
import { count, duration, percent } from "./format.ts";

export class Between {
  readonly host: HTMLElement;
  private readonly body = element("div");
  private ends: Ends | null = null;

  constructor() {
    this.host = element("section", { class: "panel panel-between", "aria-label": "Between the ends", hidden: true }, element("h2", {}, "Between the ends"), this.body);
  }

  show(ends: Ends | null): void {
    if (ends === this.ends) return;
    this.ends = ends;
    this.host.hidden = ends === null;
    if (ends === null) return this.body.replaceChildren();
    const { main, other, clocks } = ends;
    const what = `A (${main.trace.vantage}) and B (${other.trace.vantage}) are the two ends of one connection. `;
    this.body.replaceChildren(element("p", {}, what, aligned(clocks, main.tally)), table(main.tally, other.tally));
  }
}

/** How the clocks were laid on one, and what had to be assumed. */
function aligned({ offset, roundTrip }: Clocks, main: Tally): string {
  const begins = offset === 0 ? "B begins with A" : `B begins ${duration(Math.abs(offset))} ${offset < 0 ? "after" : "before"} A`;
  if (roundTrip !== null) return `Clocks aligned: the shortest ways there and back are taken to be equal; ${begins}.`;
  const direction = main.least === null ? "B to A" : "A to B";
  return `Packets arrived only from ${direction}, so the clocks cannot be told apart from the way: the shortest one is taken to be 0 ms; ${begins}.`;
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
    row("least delay", ({ least }) => time(least)),
    row("median delay", ({ median }) => time(median)),
  ];
  if (there.onTheirWay + back.onTheirWay > 0) rows.splice(2, 0, row("on their way at the end", ({ onTheirWay }) => count(onTheirWay)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}
