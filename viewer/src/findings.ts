/** The list of findings, worst first. */
import { element } from "./dom.ts";
import { duration, instant, roundTrips } from "./format.ts";
import type { Trace } from "./model.ts";
import type { Finding } from "./protocol.ts";
import type { Shown } from "./overlay.ts";

/** A finding, and the trace that it is from. */
export interface Found {
  readonly finding: Finding;
  readonly trace: Trace;
  readonly tag: Shown["tag"];
}

/** Whether two findings describe the same fault: while a trace grows, its findings grow too. */
function isSame(one: Finding, other: Finding): boolean {
  return one.id === other.id && one.begin_ms === other.begin_ms;
}

export class Findings {
  readonly host: HTMLElement;
  private readonly list = element("ol", { class: "findings" });
  private readonly heading = element("h2", {}, "Findings");
  private found: Found[] = [];
  private selected: Finding | null = null;

  constructor(private readonly chosen: (found: Found) => void) {
    this.host = element("section", { class: "panel panel-findings", "aria-label": "Findings" }, this.heading, this.list);
  }

  get selection(): Found | null {
    return this.found.find(({ finding }) => finding === this.selected) ?? null;
  }

  rebuild(shown: Shown[]): void {
    const before = this.found.map(({ finding }) => finding);
    this.found = shown
      .flatMap((one) => one.trace.findings.map((finding) => ({ finding, trace: one.trace, tag: one.tag })))
      .sort((one, other) => other.finding.severity - one.finding.severity);
    if (this.selected !== null) this.selected = this.found.find(({ finding }) => isSame(finding, this.selected as Finding))?.finding ?? null;
    // An unchanged list is kept, so that the focus in it is not lost.
    const same = this.found.length > 0 && before.length === this.found.length && before.every((finding, index) => finding === this.found[index]?.finding);
    if (same && this.list.querySelectorAll(".tag").length === this.found.filter(({ tag }) => tag !== "").length) return;
    this.heading.textContent = this.found.length === 0 ? "Findings" : `Findings (${this.found.length})`;
    this.list.replaceChildren(
      ...(this.found.length === 0 ? [element("li", { class: "none" }, "No findings.")] : this.found.map((found) => this.item(found))),
    );
    this.mark();
  }

  select(finding: Finding | null): void {
    this.selected = finding;
    this.mark();
    const found = this.selection;
    if (found !== null) this.chosen(found);
  }

  /** Selects the next or the previous finding of the list. */
  step(by: 1 | -1): void {
    if (this.found.length === 0) return;
    const now = this.found.findIndex(({ finding }) => finding === this.selected);
    const next = now === -1 ? (by === 1 ? 0 : this.found.length - 1) : (now + by + this.found.length) % this.found.length;
    this.select((this.found[next] as Found).finding);
    this.list.children[next]?.scrollIntoView({ block: "nearest" });
  }

  private mark(): void {
    this.found.forEach(({ finding }, index) => {
      const chosen = finding === this.selected;
      const item = this.list.children[index];
      item?.classList.toggle("selected", chosen);
      item?.querySelector("button")?.setAttribute("aria-expanded", String(chosen));
    });
  }

  private item({ finding, trace, tag }: Found): HTMLElement {
    const { begin_ms: begin, end_ms: end } = finding;
    const span = Math.max(end - begin, 1);
    const trips = trace.roundTrip === null ? "" : ` · ${roundTrips((end - begin) / trace.roundTrip)}`;
    const when = end > begin ? `${instant(begin, span)} – ${instant(end, span)} (${duration(end - begin)}${trips})` : `at ${instant(begin, span)}`;
    const grade = gradeOf(finding, trace.duration);
    const cost = element("span", { class: "grade", title: "Severity and estimated time lost" }, `${grade} · ${duration(finding.severity * 1000)}`);
    const button = element(
      "button",
      { type: "button", title: "Zoom to this finding", "aria-expanded": "false" },
      element("span", { class: "finding-title" }, ...(tag ? [element("span", { class: "tag" }, tag), " "] : []), finding.headline),
      cost,
      element("span", { class: "when" }, when),
    );
    button.addEventListener("click", () => this.select(finding));
    return element("li", { class: grade }, button, explanation(finding));
  }
}

/** The grade of a finding, by the seconds that it cost and by their share of the trace. */
export function gradeOf({ severity }: Finding, duration_ms: number): "severe" | "moderate" | "minor" {
  const share = (severity * 1000) / Math.max(1, duration_ms);
  if (severity >= 1 || share >= 0.1) return "severe";
  return severity >= 0.1 || share >= 0.01 ? "moderate" : "minor";
}

/** The metrics as a list, then the meaning of the finding and its usual causes. */
function explanation({ id, metrics, meaning, causes }: Finding): HTMLElement {
  const rows = metrics.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  return element(
    "div",
    { class: "explanation" },
    element("dl", { class: "metrics" }, ...rows),
    element("p", {}, meaning),
    element("p", {}, element("strong", {}, "Usual causes: "), causes),
    element("code", {}, id),
  );
}
