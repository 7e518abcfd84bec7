/** How connections ended, and notices about data that is missing from a trace. */
import { element } from "./dom.ts";
import { count } from "./format.ts";
import type { Shown } from "./overlay.ts";

export class Notices {
  readonly host = element("div", { class: "notices" });
  private text = "";

  show(shown: Shown[]): void {
    const notices = shown.flatMap((one) => about(one));
    const text = notices.map((notice) => notice.textContent).join("\n");
    if (text === this.text) return;
    this.text = text;
    this.host.replaceChildren(...notices);
  }
}

function about({ trace, tag }: Shown): HTMLElement[] {
  const prefix = tag ? `${tag}: ` : "";
  const notices: HTMLElement[] = [];
  if (trace.ending !== null) {
    // The text may come from the peer, so it must not change the direction of the surrounding text.
    const text = element("bdi", {}, trace.ending.text);
    notices.push(element("p", { class: trace.ending.failed ? "notice ending failed" : "notice ending" }, prefix, text));
  }
  if (trace.damage !== null) {
    notices.push(element("p", { class: "notice damage", role: "alert" }, `${prefix}The file is damaged at byte ${count(trace.damage.offset)}: ${trace.damage.why}. Only what comes before is shown.`));
  }
  if (trace.thinned) notices.push(element("p", { class: "notice" }, `${prefix}Some samples, states or packets are left out because the trace is long; minima and maxima are kept.`));
  if (trace.unused.length > 0) {
    const all = trace.unused.reduce((sum, [, times]) => sum + times, 0);
    const names = trace.unused.map(([name, times]) => `${name} (${count(times)})`).join(", ");
    notices.push(element("details", { class: "notice" }, element("summary", {}, `${prefix}${count(all)} events of ${trace.unused.length} types are not shown`), names));
  }
  return notices;
}
