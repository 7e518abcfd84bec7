import assert from "node:assert/strict";
import { test } from "node:test";
import { stay } from "../../src/dwell.ts";
import { difference, duration, instant, percent, quantity, roundTripTicks, ticks, shortName } from "../../src/format.ts";
import { append } from "../../src/live.ts";
import { decode, Lane } from "../../src/model.ts";
import { Comparison } from "../../src/overlay.ts";
import { blend, colourOf } from "../../src/raster.ts";
import { rowsOf } from "../../src/rows.ts";
import { View } from "../../src/view.ts";
import { header, lane as laneOf, marks, rows, series } from "../model_writer.ts";

function lane(segments: [number, number, number][], names = ["recovery", "avoidance", "never"]): Lane {
  const column = (index: 0 | 1): Float64Array => Float64Array.from(segments, (segment) => segment[index]);
  return new Lane("congestion_state", "State", names, column(0), column(1), Uint16Array.from(segments, (segment) => segment[2]), segments.length);
}

test("dwell times are cut at the view, transitions counted within it", () => {
  const flapping = lane(Array.from({ length: 100 }, (_, index) => [index * 5, index * 5 + 5, index % 2]));
  const stayed = stay(flapping, 12, 32);
  assert.deepEqual(stayed.dwells.map(({ name, visits, total, longest }) => [name, visits, total, longest]), [["recovery", 3, 10, 5], ["avoidance", 2, 10, 5]]);
  assert.equal(stayed.transitions, 4);
  assert.deepEqual(stayed.matrix, [[0, 2], [2, 0]]);
  assert.equal(stayed.dwells.reduce((sum, { share }) => sum + share, 0), 1);
});

test("a state that has not ended is counted up to the end of the view", () => {
  const stayed = stay(lane([[0, 10, 0], [10, Infinity, 1]]), 0, 40);
  assert.deepEqual(stayed.dwells.map(({ name, share }) => [name, share]), [["avoidance", 0.75], ["recovery", 0.25]]);
});

test("numbers are written in the usual units", () => {
  assert.equal(quantity(2700, "bytes"), "2.7 kB");
  assert.equal(quantity(1_250_000, "bytes/s"), "10 Mbit/s");
  assert.equal(quantity(0, "bytes"), "0 B");
  assert.equal(quantity(999_600, "bytes"), "1 MB");
  assert.equal(quantity(0.25, "ms"), "250 µs");
  assert.equal(difference(-1350, "bytes"), "−1.35 kB");
  assert.equal(duration(6980), "6.98 s");
  assert.equal(duration(100), "100 ms");
  assert.equal(instant(1234.5678, 60_000), "1.23 s");
  assert.equal(instant(1234.5678, 10), "1234.57 ms");
  assert.deepEqual(ticks([0, 500, 1000], 500, 5000), ["0.0 s", "0.5 s", "1.0 s"]);
  assert.deepEqual(roundTripTicks([0, 2.5], 2.5), ["0 RT", "2.5 RT"]);
  assert.equal(percent(0.0004), "< 0.1 %");
  assert.equal(percent(1), "100 %");
});

test("the view keeps the position under the cursor and stays within the whole range", () => {
  let changes = 0;
  const view = new View(() => (changes += 1));
  view.bound(0, 1000, 0.01);
  view.all();
  view.zoom(0.5, 250);
  assert.deepEqual([view.min, view.max], [125, 625]);
  view.pan(-1);
  assert.deepEqual([view.min, view.max], [0, 500]);
  view.zoom(100, 400);
  assert.ok(view.whole);
  view.show(990, 2000);
  assert.deepEqual([view.min, view.max], [0, 1000]);
  view.show(999.9999, 999.99991);
  assert.ok(Math.abs(view.span - 0.01) < 1e-9 && view.max <= 1000);
  assert.equal(changes, 5);
});

test("two traces share one axis, in time or in round trips", () => {
  const comparison = new Comparison();
  comparison.main = decode(header({ duration_ms: 1000, round_trip_ms: 10 }), new ArrayBuffer(0));
  comparison.other = decode(header({ duration_ms: 3000, round_trip_ms: 50 }), new ArrayBuffer(0));
  assert.equal(comparison.end(), 3000);
  comparison.axis = "round_trips";
  assert.deepEqual(comparison.shown().map(({ tag, factor }) => [tag, factor]), [["A", 0.1], ["B", 0.02]]);
  assert.equal(comparison.end(), 100);
  comparison.other.roundTrip = null;
  assert.equal(comparison.countsRoundTrips(), false);
});

test("overlapping states have one row each", () => {
  const trace = decode(header({ lanes: [laneOf("suppressors")] }), new ArrayBuffer(0));
  trace.lanes[0] = lane([[0, 10, 0], [5, 20, 1], [12, 14, 0]]);
  const shown = rowsOf([{ trace, tag: "", factor: 1 }]);
  assert.deepEqual(shown.map((row) => [row.label, row.kind === "states" && row.lane.length]), [["recovery", 2], ["avoidance", 1]]);
});

test("shortened names of traces still differ", () => {
  assert.equal(shortName("230218c79c57a94f262f08de_server.sqlog"), "230218c7…_server.sqlog");
  assert.equal(shortName("cubic.sqlog: seed 2"), "cubic.sqlog: seed 2");
});

test("a live trace gets series that are declared later", () => {
  const trace = decode(header({ series: [series("congestion_window", "bytes")] }), new ArrayBuffer(0));
  append(trace, rows({ series: { "controller.k": [[1, 2]] } }));
  append(trace, rows({ declared: [series("controller.k", "ms", { title: "k", detail: true })], series: { "controller.k": [[3, 4], [5, null]] } }));
  const added = trace.curves[1];
  assert.deepEqual([added?.title, added?.unit, added?.detail, added?.length], ["k", "ms", true, 2]);
  assert.deepEqual([added?.at(2), added?.at(4), added?.at(6)], [null, 4, null]);
});

test("rows of a live trace are added, and an open segment gets its end", () => {
  const trace = decode(header({ series: [series("smoothed_rtt", "ms")], lanes: [laneOf("congestion_state")], marks: [marks("lost")] }), new ArrayBuffer(0));
  append(trace, rows({ series: { smoothed_rtt: Array.from({ length: 600 }, (_, index): [number, number] => [index, 20 + (index % 3)]) } }));
  append(trace, rows({ lanes: { congestion_state: [[0, null, "slow_start"]] } }));
  append(trace, rows({ lanes: { congestion_state: [[100, null, "recovery"]] }, marks: { lost: [[99, null]] } }));
  append(trace, rows({ lanes: { congestion_state: [[100, 150, "recovery"], [150, null, "slow_start"]] }, findings: [] }));
  const [curve, state] = [trace.curves[0], trace.lanes[0] as Lane];
  assert.equal(curve?.at(599), 22);
  assert.deepEqual([...state.end.subarray(0, state.length)], [100, 150, Infinity]);
  assert.deepEqual(state.names, ["slow_start", "recovery"]);
  assert.equal(trace.marks[0]?.length, 1);
  assert.equal(trace.duration, 599);
  assert.equal(trace.roundTrip, 21);
});

test("a colour over another is what a canvas makes of the two", () => {
  const [red, blue] = [colourOf("#ff0000"), colourOf("#0000ff")];
  const pixel = new Uint8ClampedArray(4);
  blend(pixel, 0, red, 0.5);
  assert.deepEqual([...pixel], [255, 0, 0, 128]);
  blend(pixel, 0, blue, 0.5);
  assert.deepEqual([...pixel], [85, 0, 170, 192]);
  blend(pixel, 0, blue, 1);
  assert.deepEqual([...pixel], [0, 0, 255, 255]);
  assert.throws(() => colourOf("blue"), /#rrggbb/);
});
