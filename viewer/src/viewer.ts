/** The page with a trace: creates its parts and connects them. */
import { Between } from "./between.ts";
import { commandsOf } from "./commands.ts";
import { Cursor } from "./cursor.ts";
import { element } from "./dom.ts";
import { Findings, type Found } from "./findings.ts";
import { Frames, type Change } from "./frame.ts";
import { Geometry } from "./geometry.ts";
import { Glass, type Stretch } from "./glass.ts";
import { HeaderBar } from "./header.ts";
import { Help } from "./help.ts";
import { listen } from "./keyboard.ts";
import { Lanes } from "./lanes.ts";
import type { Listener } from "./live.ts";
import type { Source } from "./load.ts";
import type { Trace } from "./model.ts";
import { Notices } from "./notices.ts";
import { Comparison, type Axis, type Shown } from "./overlay.ts";
import { PacketTable } from "./packets.ts";
import { Plot, type Scene } from "./plot.ts";
import { Pointer } from "./pointer.ts";
import { Readout } from "./readout.ts";
import { Ruler, type Height } from "./ruler.ts";
import { firstAtOrAfter, lastAtOrBefore } from "./search.ts";
import { States } from "./states.ts";
import { Themes } from "./theme.ts";
import { View } from "./view.ts";

/** The length of the view while it follows a live trace, in ms. */
const WINDOW = 30_000;

export class Viewer {
  readonly host: HTMLElement;
  private readonly frames = new Frames();
  private readonly themes = new Themes(() => this.frames.request("theme"));
  private readonly comparison = new Comparison();
  private readonly view = new View(() => this.frames.request("view"));
  private readonly geometry = new Geometry(this.view);
  private readonly cursor = new Cursor(() => this.frames.request("cursor"));
  private readonly ruler = new Ruler(() => this.frames.request("cursor"));
  private readonly glass = new Glass(this.geometry);
  private readonly lanes = new Lanes(this.view, this.geometry);
  private readonly findings = new Findings((found) => this.zoomTo(found));
  private readonly between = new Between();
  private readonly states = new States();
  private readonly notices = new Notices();
  private readonly readout = new Readout();
  private readonly packets = new PacketTable((time) => this.keepInSight(time));
  private readonly plots: Plot[];
  private readonly stack: HTMLElement;
  private readonly header: HeaderBar;
  private readonly help: Help;
  private selection: Stretch = null;
  /** The position on the axis at which the main trace begins. */
  private begin = 0;
  private main = 0;
  private other: number | null = null;
  private note = "";
  private live = false;
  private follows = false;

  constructor(private readonly sources: Source[]) {
    const changed = (): void => this.frames.request("data");
    const plot = (title: string, unit: string, axis: boolean): Plot => new Plot(title, unit, this.view, this.geometry, axis, changed);
    this.plots = [plot("Bytes", "bytes", false), plot("Rates", "bytes/s", false), plot("Round-trip times", "ms", true)];
    this.stack = element("div", { class: "stack", role: "group", "aria-label": "Curves and lanes; ? lists the keys" }, ...this.plots.map(({ host }) => host), this.lanes.host, this.glass.host);
    const commands = commandsOf(this);
    this.help = new Help(commands);
    this.header = new HeaderBar({
      choose: (index) => void this.choose(index),
      overlay: (index) => void this.overlay(index),
      axis: (axis) => this.setAxis(axis),
      all: () => this.all(),
      ruler: () => this.measure(),
      follow: () => this.followOn(),
      theme: () => this.nextTheme(),
      help: () => this.showHelp(),
    });
    this.header.names(sources.map(({ name }) => name));
    this.host = element("div", { class: "viewer" }, this.header.host, this.notices.host, this.readout.host,
      element("main", {}, element("div", { class: "right" }, this.findings.host, this.between.host, this.states.host), element("div", { class: "left" }, this.stack, this.ruler.host, this.packets.host)), this.help.host);
    listen(commands);
    this.listenToPointer();
    this.frames.add((changes) => this.draw(changes));
    const resized = new ResizeObserver(() => {
      this.geometry.resize(this.stack.clientWidth);
      this.frames.request("view");
    });
    for (const part of [this.stack, ...this.plots.map(({ space }) => space)]) resized.observe(part);
  }

  /** Loads and shows the first trace. */
  async open(): Promise<void> {
    await this.choose(0);
    this.view.all();
  }

  /** A listener that shows a live trace in `page`. */
  liveListener(page: HTMLElement): Listener {
    return {
      begun: (trace) => {
        this.live = this.follows = true;
        this.comparison.main = trace;
        this.header.names([trace.title]);
        if (!page.contains(this.host)) page.replaceChildren(this.host);
        this.arranged();
      },
      grown: () => {
        this.bound();
        if (this.follows) this.showNewest();
        this.frames.request("data");
      },
      connected: (now) => {
        this.note = now ? "" : "disconnected; reconnecting";
        this.frames.request("cursor");
      },
    };
  }

  async choose(index: number): Promise<void> {
    if (index === this.other) await this.overlay(null);
    this.main = index;
    await this.load(index, (trace) => {
      this.comparison.main = trace;
      this.arranged();
    });
  }

  async overlay(index: number | null): Promise<void> {
    this.other = index;
    if (index === null) {
      this.comparison.other = null;
      return this.arranged();
    }
    await this.load(index, (trace) => {
      if (this.other !== index) return;
      this.comparison.other = trace;
      this.arranged();
    });
  }

  setAxis(axis: Axis): void {
    const { main } = this.comparison;
    if (main === null || (axis === "round_trips" && !this.comparison.countsRoundTrips())) return;
    const before = this.comparison.factor(main);
    this.comparison.axis = axis;
    const by = this.comparison.factor(main) / before;
    const [from, to] = [this.view.min * by, this.view.max * by];
    this.cursor.rescale(by);
    this.ruler.rescale(by);
    this.bound();
    this.view.show(from, to);
    this.frames.request("data");
  }

  all(): void {
    this.follows = false;
    this.view.all();
    this.frames.request("cursor");
  }

  pan(share: number): void {
    this.follows = false;
    this.view.pan(share);
  }

  zoom(factor: number): void {
    this.follows = false;
    const { at } = this.cursor;
    const inSight = at !== null && at >= this.view.min && at <= this.view.max;
    this.view.zoom(factor, inSight ? at : (this.view.min + this.view.max) / 2);
  }

  moveCursor(share: number): void {
    this.follows = false;
    const from = this.cursor.at ?? (this.view.min + this.view.max) / 2;
    const inSight = Math.min(Math.max(from, this.view.min), this.view.max);
    this.point(Math.max(0, inSight + share * this.view.span));
  }

  toMark(direction: 1 | -1): void {
    const from = this.cursor.at ?? (direction === 1 ? -1 : Infinity);
    const places = this.comparison.shown().flatMap(({ trace, factor }) =>
      trace.marks.flatMap(({ time, length }) => {
        const index = direction === 1 ? lastAtOrBefore(time, length, from / factor + 1e-6) + 1 : firstAtOrAfter(time, length, from / factor - 1e-6) - 1;
        return index >= 0 && index < length ? [(time[index] as number) * factor] : [];
      }),
    );
    if (places.length > 0) this.point(direction === 1 ? Math.min(...places) : Math.max(...places));
  }

  measure(): void {
    this.ruler.press(this.cursor.at ?? (this.view.min + this.view.max) / 2);
  }

  release(): void {
    if (this.ruler.active) this.ruler.clear();
    else if (this.cursor.pin !== null) this.cursor.keep(null);
    else this.findings.select(null);
    this.frames.request("view");
  }

  stepFinding(by: 1 | -1): void {
    this.findings.step(by);
  }

  nextOverlay(): void {
    const others = [null, ...this.sources.keys()].filter((index) => index !== this.main);
    void this.overlay(others[(others.indexOf(this.other) + 1) % others.length] ?? null);
  }

  otherAxis(): void {
    this.setAxis(this.comparison.axis === "time" ? "round_trips" : "time");
  }

  followOn(): void {
    if (!this.live) return;
    this.follows = !this.follows;
    if (this.follows) this.showNewest();
    this.frames.request("cursor");
  }

  nextTheme(): void {
    this.themes.next();
  }

  showHelp(): void {
    this.help.toggle();
  }

  private async load(index: number, then: (trace: Trace) => void): Promise<void> {
    const source = this.sources[index];
    if (source === undefined) return;
    this.note = `loading ${source.name}`;
    this.frames.request("cursor");
    then(await source.load());
    this.note = "";
  }

  /** Updates the page after the traces on the screen changed. */
  private arranged(): void {
    if (!this.comparison.countsRoundTrips()) this.setAxis("time");
    const shown = this.comparison.shown();
    const everything = this.view.whole;
    this.bound();
    this.followMain();
    if (everything) this.view.all();
    this.findings.rebuild(shown);
    if (shown[0] !== undefined) this.packets.show(shown[0]);
    this.frames.request("data");
  }

  /** Keeps the same part of the main trace in view if the trace is moved. */
  private followMain(): void {
    const { main, begin } = this.comparison;
    const by = main === null ? 0 : (begin - this.begin) * this.comparison.factor(main);
    this.begin = begin;
    if (by === 0) return;
    this.cursor.shift(by);
    this.ruler.shift(by);
    this.view.show(this.view.min + by, this.view.max + by);
  }

  private bound(): void {
    const { main } = this.comparison;
    this.view.bound(0, this.comparison.end(), main === null ? 1 : this.comparison.factor(main) * 0.01);
  }

  private showNewest(): void {
    const { main } = this.comparison;
    if (main === null) return;
    const factor = this.comparison.factor(main);
    this.view.show(Math.max(0, main.duration - WINDOW) * factor, main.duration * factor);
  }

  /** Shows a finding with a margin on both sides. */
  private zoomTo(found: Found): void {
    const [from, to] = this.stretchOf(found);
    const margin = Math.max((to - from) * 0.15, (found.trace.roundTrip ?? 10) * 2 * this.comparison.factor(found.trace));
    this.follows = false;
    this.view.show(Math.max(0, from - margin), Math.min(this.comparison.end(), to + margin));
    this.frames.request("view");
  }

  /** The range of a finding on the axis. */
  private stretchOf({ finding, trace }: Found): [number, number] {
    const factor = this.comparison.factor(trace);
    return [finding.begin_ms * factor, finding.end_ms * factor];
  }

  /** Pins the cursor at a position, and announces the values there. */
  private point(place: number): void {
    this.cursor.hover = null;
    this.cursor.keep(place);
    if (place < this.view.min || place > this.view.max) this.view.show(place - this.view.span / 2, place + this.view.span / 2);
    this.readout.speak(() => this.plots.map(({ legend }) => legend.spoken()).filter((text) => text !== "").join(", "));
  }

  /** Pins the cursor at the time of a packet of the main trace. */
  private keepInSight(time: number): void {
    const { main } = this.comparison;
    if (main !== null) this.point(time * this.comparison.factor(main));
  }

  private listenToPointer(): void {
    new Pointer(this.stack, this.view, this.geometry, {
      hover: (place) => this.cursor.move(place),
      click: (place, x, y) => this.click(place, x, y),
      measure: (from, to, fromY, toY) => this.ruler.lay(from, to, this.heights(fromY, toY)),
      select: (stretch) => {
        this.selection = stretch;
        this.frames.request("cursor");
      },
      moved: () => (this.follows = false),
    });
  }

  private click(place: number, clientX: number, clientY: number): void {
    const finding = this.lanes.findingAt(clientX, clientY);
    if (finding !== null) return this.findings.select(finding);
    if (this.ruler.open) return this.ruler.press(place);
    const near = this.cursor.pin !== null && Math.abs(this.geometry.toPixel(this.cursor.pin) - this.geometry.toPixel(place)) < 4;
    this.cursor.keep(near ? null : place);
  }

  private heights(fromY: number, toY: number): [Height, Height] | null {
    for (const plot of this.plots) {
      const [from, to] = [plot.valueAt(fromY), plot.valueAt(toY)];
      if (from !== null && to !== null) return [{ value: from, unit: plot.unit }, { value: to, unit: plot.unit }];
    }
    return null;
  }

  private draw(changes: ReadonlySet<Change>): void {
    const shown = this.comparison.shown();
    const first = shown[0];
    if (first === undefined || !this.host.isConnected) return;
    const scene: Scene = { shown, axis: this.comparison.axis, theme: this.themes.now };
    if (changes.has("data")) this.drawData(scene, first.trace);
    if (changes.has("data") || changes.has("view") || changes.has("theme")) this.drawView(scene);
    this.drawCursor(scene);
    if (document.documentElement.dataset["state"] === "drawn") return;
    document.documentElement.dataset["state"] = "drawn";
    performance.mark("clearway:drawn");
  }

  private drawData(scene: Scene, main: Trace): void {
    if (this.live) this.findings.rebuild(scene.shown);
    this.lanes.rebuild(scene);
    this.notices.show(scene.shown);
    this.between.show(this.comparison.ends);
    this.header.describe(main, this.live);
    document.title = `${main.title} – Clearway`;
  }

  private drawView(scene: Scene): void {
    this.geometry.resize(this.stack.clientWidth);
    for (const plot of this.plots) plot.draw(scene);
    this.lanes.draw(scene, this.findings.selection?.finding ?? null);
    this.states.draw(scene.shown, scene.theme, this.view.min, this.view.max, this.follows);
  }

  private drawCursor({ shown }: Scene): void {
    const { at, kept } = this.cursor;
    const first = shown[0] as Shown;
    for (const { legend } of this.plots) legend.at(at);
    this.readout.draw(first, at, at === null ? "" : this.lanes.at(at), this.view, this.comparison.axis, this.note);
    this.ruler.draw(shown, at, (this.view.min + this.view.max) / 2);
    const found = this.findings.selection;
    this.glass.draw({
      hover: this.cursor.hover,
      pin: this.cursor.pin,
      selection: this.selection,
      ruler: this.ruler.stretch(at),
      finding: found === null ? null : this.stretchOf(found),
    });
    const packetsOf = kept ?? (found === null ? null : this.stretchOf(found)[0]);
    if (packetsOf !== null) this.packets.at(packetsOf / first.factor);
    this.header.show({
      main: this.main,
      other: this.other,
      axis: this.comparison.axis,
      countsRoundTrips: this.comparison.countsRoundTrips(),
      ruler: this.ruler.active,
      live: this.live,
      follows: this.follows,
      theme: this.themes.label,
    });
  }
}
