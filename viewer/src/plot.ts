/** One plot: the curves of one unit over the shared x axis. uPlot draws the axes and the grid, stroke.ts the curves. */
import uPlot from "uplot";
import { element } from "./dom.ts";
import type { Geometry } from "./geometry.ts";
import { Legend } from "./legend.ts";
import { sampledFrom, type Curve } from "./model.ts";
import { roundTripTicks, ticks, quantity } from "./format.ts";
import type { Axis, Shown } from "./overlay.ts";
import { curveColour, type Theme } from "./palette.ts";
import { Raster } from "./raster.ts";
import { stroke, type Style } from "./stroke.ts";
import { thin, type Thinned } from "./thin.ts";
import type { View } from "./view.ts";

/** What all plots need before they draw. */
export interface Scene {
  readonly shown: Shown[];
  readonly axis: Axis;
  readonly theme: Theme;
}

/** A curve of a trace, thinned for this drawing. */
interface Drawn {
  readonly curve: Curve;
  readonly shown: Shown;
  readonly samples: Thinned;
}

/** A curve that does not affect the scale: a threshold of "no limit" would flatten all others. */
const THRESHOLD = "slow_start_threshold";
/** Curves that change with every packet. */
const RESTLESS = ["latest_rtt", "one_way_delay"];

export class Plot {
  readonly host: HTMLElement;
  readonly legend: Legend;
  /** The plot below the legend, in the height that the legend leaves. */
  readonly space = element("div", { class: "canvas", role: "img" });
  private readonly chart: uPlot;
  private readonly raster = new Raster();
  private drawn: Drawn[] = [];
  private scene: Scene = { shown: [], axis: "time", theme: "light" };
  private top = 1;

  constructor(
    readonly title: string,
    readonly unit: string,
    private readonly view: View,
    private readonly geometry: Geometry,
    private readonly withAxis: boolean,
    changed: () => void,
  ) {
    this.legend = new Legend(title, changed);
    this.host = element("section", { class: `plot plot-${unit.replaceAll("/", "-per-")}` }, this.legend.host, this.space);
    this.space.setAttribute("aria-label", `${title} over time`);
    this.chart = new uPlot(this.options(), [[], []], this.space);
  }

  /** Draws the visible range. */
  draw(scene: Scene): void {
    this.scene = scene;
    this.legend.show(scene, this.unit);
    this.host.hidden = this.legend.empty;
    if (this.host.hidden) return;
    this.fit();
    this.drawn = this.thinned();
    this.top = this.range();
    this.chart.batch(() => {
      this.chart.setScale("y", { min: 0, max: this.top });
      this.chart.setScale("x", { min: this.view.min, max: this.view.max });
    });
  }

  /** The value of the y axis at a height on the screen, or null if that is not over this plot. */
  valueAt(clientY: number): number | null {
    if (this.host.hidden) return null;
    const over = this.chart.over.getBoundingClientRect();
    if (clientY < over.top || clientY > over.bottom) return null;
    return (1 - (clientY - over.top) / over.height) * this.top;
  }

  private fit(): void {
    const height = Math.max(40, this.space.clientHeight);
    const width = this.geometry.width;
    if (this.chart.width !== width || this.chart.height !== height) this.chart.setSize({ width, height });
  }

  private thinned(): Drawn[] {
    const columns = Math.round(this.geometry.plotWidth * devicePixelRatio);
    return this.scene.shown.flatMap((shown) =>
      this.legend.visible(shown.trace).map((curve) => ({
        curve,
        shown,
        samples: thin(curve, curve.extremes, this.view.min / shown.factor, this.view.max / shown.factor, columns),
      })),
    );
  }

  private range(): number {
    const highest = (of: Drawn[]): number => of.reduce((top, drawn) => Math.max(top, this.high(drawn)), 0);
    const compared = highest(this.drawn.filter(({ curve }) => curve.id !== THRESHOLD));
    const threshold = highest(this.drawn.filter(({ curve }) => curve.id === THRESHOLD));
    const top = compared > 0 ? Math.max(compared, Math.min(threshold, compared * 1.5)) : threshold;
    return top > 0 ? top * 1.08 : 1;
  }

  /** The greatest measured value in view: an initial RTT, before the first sample, does not affect the scale. */
  private high({ curve, shown, samples }: Drawn): number {
    const from = this.view.min / shown.factor;
    const to = this.view.max / shown.factor;
    const sampled = sampledFrom(shown.trace, curve);
    if (sampled <= from || sampled > to) return samples.high;
    return thin(curve, curve.extremes, sampled, to, 1).high;
  }

  private paint(chart: uPlot): void {
    const { left, top, width, height } = chart.bbox;
    const box = { left, top, width, height, xMin: this.view.min, xMax: this.view.max, yMin: 0, yMax: this.top };
    const context = chart.ctx;
    context.save();
    context.beginPath();
    context.rect(left, top - 1, width, height + 2);
    context.clip();
    this.raster.begin(left, top - 1, width, height + 2);
    // The main trace, and the most important curve of each trace, are drawn last, on top.
    for (const { curve, shown, samples } of [...this.drawn].reverse()) {
      const course = { factor: shown.factor, step: curve.step, until: shown.trace.duration };
      stroke(context, this.raster, box, samples, course, this.style(curve, shown));
    }
    this.raster.flush(context);
    context.restore();
  }

  private style(curve: Curve, shown: Shown): Style {
    const second = shown.tag === "B";
    return {
      colour: curveColour(curve.id, this.scene.theme),
      width: (second || RESTLESS.includes(curve.id) ? 1 : 1.6) * devicePixelRatio,
      dash: second ? [5 * devicePixelRatio, 3 * devicePixelRatio] : [],
      fill: curve.id === "bytes_in_flight" && !second ? 0.14 : 0,
      opacity: second ? 0.65 : 1,
    };
  }

  private options(): uPlot.Options {
    const css = (name: string) => (): string => getComputedStyle(document.documentElement).getPropertyValue(name);
    const font = "11px system-ui, sans-serif";
    const line = { stroke: css("--grid"), width: 1 };
    return {
      width: this.geometry.width,
      height: 100,
      legend: { show: false },
      cursor: { show: false },
      padding: [6, () => this.geometry.right, this.withAxis ? 0 : 4, 0],
      scales: {
        x: { time: false, range: (_chart, min, max) => [min, max] },
        y: { range: (_chart, min, max) => [min ?? 0, max ?? this.top] },
      },
      axes: [
        {
          show: this.withAxis,
          size: 26,
          space: 90,
          font,
          stroke: css("--muted"),
          grid: line,
          ticks: { ...line, size: 4 },
          values: (_chart, splits, _axis, _space, step) =>
            this.scene.axis === "time" ? ticks(splits, step, this.view.span) : roundTripTicks(splits, step),
        },
        {
          size: () => this.geometry.left,
          space: 22,
          font,
          stroke: css("--muted"),
          grid: line,
          ticks: { ...line, size: 4 },
          gap: 4,
          values: (_chart, splits) => splits.map((value) => quantity(value, this.unit)),
        },
      ],
      series: [{}, { show: true, points: { show: false } }],
      hooks: { draw: [(chart) => this.paint(chart)] },
    };
  }
}
