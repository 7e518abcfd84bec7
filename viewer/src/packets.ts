/** The packets around the cursor: a table in which only the visible rows exist as elements. */
import { element, write } from "./dom.ts";
import type { Fates } from "./fates.ts";
import { count } from "./format.ts";
import type { Packets } from "./model.ts";
import type { Shown } from "./overlay.ts";
import { KINDS } from "./protocol.ts";
import { firstAtOrAfter } from "./search.ts";

const ROW = 22;
/** Browsers limit the height of elements. If the table is higher than this, a step of the scroll bar is more than one row. */
const TALLEST = 4_000_000;
const COLUMNS = ["time", "event", "type", "number", "size", "arrived", "frames"] as const;

export class PacketTable {
  readonly host: HTMLElement;
  private readonly heading = element("h2", {}, "Packets");
  private readonly scroller = element("div", { class: "scroller", tabindex: "0", "data-scrolls": true, role: "table", "aria-label": "Packets" });
  private readonly spacer = element("div", { class: "spacer", role: "presentation" });
  private readonly rows = element("div", { class: "rows", role: "rowgroup" });
  private packets: Packets | null = null;
  private fates: Fates | null = null;
  /** The first visible row, and the row at the cursor. */
  private top = 0;
  private current = -1;
  /** The scroll position that this class set itself; the resulting event is ignored. */
  private expected = -1;

  constructor(private readonly chosen: (time: number) => void) {
    const head = element("div", { class: "row head", role: "row" }, ...COLUMNS.map((name) => element("span", { role: "columnheader", class: name }, name)));
    this.scroller.append(element("div", { class: "sticky", role: "presentation" }, head, this.rows), this.spacer);
    this.host = element("section", { class: "panel panel-packets", "aria-label": "Packets" }, this.heading, this.scroller);
    this.scroller.addEventListener("scroll", () => this.scrolled());
    this.scroller.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.go(this.top)).observe(this.scroller);
  }

  show({ trace: { packets }, fates, tag }: Shown): void {
    // Adding or removing an overlay may move this trace in time. Its rows are then the same, and the table does not scroll.
    const same = this.packets?.number === packets.number;
    this.packets = packets;
    this.fates = fates ?? null;
    if (!same) this.current = -1;
    this.host.hidden = packets.length === 0;
    this.host.classList.toggle("with-fates", this.fates !== null);
    this.heading.textContent = `Packets${tag === "" ? "" : ` of ${tag}`} (${count(packets.length)})`;
    this.scroller.setAttribute("aria-rowcount", String(packets.length + 1));
    this.go(same ? this.top : 0);
  }

  /** Scrolls the packet nearest to a time into the middle. */
  at(time: number): void {
    if (this.packets === null || this.packets.length === 0) return;
    const after = Math.min(firstAtOrAfter(this.packets.time, this.packets.length, time), this.packets.length - 1);
    const before = Math.max(0, after - 1);
    const nearest = time - (this.packets.time[before] as number) < (this.packets.time[after] as number) - time ? before : after;
    if (nearest === this.current) return;
    this.current = nearest;
    this.go(nearest - Math.floor(this.inSight / 2));
  }

  private get inSight(): number {
    return Math.max(1, Math.floor((this.scroller.clientHeight - ROW) / ROW));
  }

  private get lastTop(): number {
    return Math.max(0, (this.packets?.length ?? 0) - this.inSight);
  }

  private go(top: number): void {
    this.spacer.style.height = `${Math.min(this.lastTop * ROW, TALLEST)}px`;
    this.top = Math.min(Math.max(0, top), this.lastTop);
    const range = this.scroller.scrollHeight - this.scroller.clientHeight;
    const place = this.lastTop === 0 ? 0 : Math.round((this.top / this.lastTop) * range);
    this.expected = place;
    this.scroller.scrollTop = place;
    this.paint();
  }

  private scrolled(): void {
    const place = this.scroller.scrollTop;
    if (Math.abs(place - this.expected) <= 1) return;
    this.expected = -1;
    const range = this.scroller.scrollHeight - this.scroller.clientHeight;
    this.top = range > 0 ? Math.round((place / range) * this.lastTop) : 0;
    this.paint();
  }

  private wheel(event: WheelEvent): void {
    if (Math.abs(event.deltaY) <= Math.abs(event.deltaX)) return;
    const rows = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY : event.deltaY / ROW;
    const next = this.top + (rows > 0 ? Math.ceil(rows) : Math.floor(rows));
    // At its ends the table lets the page scroll.
    if (Math.min(Math.max(0, next), this.lastTop) === this.top) return;
    event.preventDefault();
    this.go(next);
  }

  private key(event: KeyboardEvent): void {
    const steps: Record<string, number> = { ArrowUp: -1, ArrowDown: 1, PageUp: -this.inSight, PageDown: this.inSight, Home: -Infinity, End: Infinity };
    const by = steps[event.key];
    if (by === undefined || this.packets === null || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.choose(Math.min(Math.max(0, this.current + by), this.packets.length - 1));
  }

  private choose(index: number): void {
    if (this.packets === null) return;
    this.current = index;
    if (index < this.top || index >= this.top + this.inSight) this.go(index - Math.floor(this.inSight / 2));
    else this.paint();
    this.chosen(this.packets.time[index] as number);
  }

  private paint(): void {
    const { packets } = this;
    if (packets === null) return;
    const wanted = Math.min(this.inSight + 1, packets.length - this.top);
    while (this.rows.childElementCount < wanted) this.rows.append(this.row());
    while (this.rows.childElementCount > wanted) this.rows.lastElementChild?.remove();
    [...this.rows.children].forEach((row, offset) => this.fill(row as HTMLElement, packets, this.top + offset));
  }

  private row(): HTMLElement {
    const made = element("div", { class: "row", role: "row" }, ...COLUMNS.map((name) => element("span", { role: "cell", class: name })));
    made.addEventListener("click", () => this.choose(Number(made.dataset["index"])));
    return made;
  }

  private fill(row: HTMLElement, packets: Packets, index: number): void {
    const kind = KINDS[packets.kind[index] as number] ?? "?";
    const number = packets.number[index] as number;
    const frames = packets.frames(index);
    const cells = [
      `${(packets.time[index] as number).toFixed(2)} ms`,
      kind,
      packets.spaces[packets.space[index] as number] ?? "",
      Number.isFinite(number) ? String(number) : "–",
      packets.size[index] === 0 ? "" : String(packets.size[index]),
      this.fates?.describe(index) ?? "",
      frames,
    ];
    cells.forEach((cell, column) => write(row.children[column] as HTMLElement, cell));
    row.dataset["index"] = String(index);
    row.className = `row ${kind}${index === this.current ? " current" : ""}`;
    row.setAttribute("aria-rowindex", String(index + 2));
    row.setAttribute("aria-current", String(index === this.current));
    row.title = frames;
  }
}
