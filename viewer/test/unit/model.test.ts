import assert from "node:assert/strict";
import { test } from "node:test";
import { columnsLength, decode } from "../../src/model.ts";
import type { Header } from "../../src/protocol.ts";
import { Columns, header as headerWith, lane, marks, pageWith, PLACEHOLDER, series as seriesOf } from "../model_writer.ts";
import { healthy, pinned } from "../synthetic.ts";

function bytesOf(buffer: Buffer): ArrayBuffer {
  return new Uint8Array(buffer).buffer;
}

test("a decoded model equals the written one", () => {
  const { header, columns } = pinned();
  const trace = decode(JSON.parse(JSON.stringify(header)) as Header, bytesOf(columns));
  assert.equal(columnsLength(header), columns.length - ((8 - (header.text?.length ?? 0) % 8) % 8));
  assert.equal(trace.roundTrip, 11.5);
  const window = trace.curves.find(({ id }) => id === "congestion_window");
  assert.equal(window?.at(5000), 2700);
  assert.equal(window?.at(-1), null);
  const state = trace.lanes.find(({ id }) => id === "congestion_state");
  assert.equal(state?.name(state.at(5002)), "recovery");
  assert.equal(state?.name(state.at(5007)), "congestion_avoidance");
  assert.equal(state?.at(9001), -1);
  assert.match(trace.packets.frames(0), /^STREAM 4 0\+1320$/);
  assert.match(trace.packets.frames(trace.packets.length - 1), /^STREAM 4 \d+\+1320$/);
  assert.equal(trace.findings[0]?.id, "Q1");
});

test("columns of a narrower type are widened", () => {
  const columns = new Columns();
  const series = [seriesOf("x", "ms", { time: columns.add(Uint32Array.of(1, 2)), value: columns.add(Uint16Array.of(3, 4)) })];
  const trace = decode(headerWith({ series }), bytesOf(columns.bytes()));
  assert.equal(trace.curves[0]?.at(2), 4);
});

test("a header without columns is a trace without rows", () => {
  const trace = decode(headerWith({ series: [seriesOf("x", "ms")], lanes: [lane("blocked")], marks: [marks("lost")] }), new ArrayBuffer(0));
  assert.deepEqual([trace.curves[0]?.length, trace.lanes[0]?.length, trace.marks[0]?.length, trace.packets.length], [0, 0, 0, 0]);
});

test("errors name what is inconsistent", () => {
  const { header, columns } = healthy();
  assert.throws(() => decode({ ...header, version: 2 }, bytesOf(columns)), /version 2/);
  assert.throws(() => decode(header, bytesOf(columns).slice(0, 800)), /ends at byte/);
  const place = { offset: 0, length: 2, type: "f64" as const };
  assert.throws(() => decode(headerWith({ series: [seriesOf("x", "ms", { time: place, value: { ...place, length: 1 } })] }), new ArrayBuffer(16)), /2 times and 1 values/);
});

test("models replace the one placeholder of a page, whatever their titles are", () => {
  const page = pageWith(`<body>${PLACEHOLDER}</body>`, [pinned()]);
  assert.ok(!page.includes("<pinned>") && page.includes("\\u003cpinned>"));
  assert.throws(() => pageWith("<body></body>", []), /exactly one placeholder/);
});
