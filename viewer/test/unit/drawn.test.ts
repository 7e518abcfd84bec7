/** Tests of what is drawn: alternating states, colours, counted losses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { append } from "../../src/live.ts";
import { decode, Lane } from "../../src/model.ts";
import { CURVES, MARKS, OTHER_CURVES, OTHER_STATES, STATES } from "../../src/palette.ts";
import { labelsOf, runsOf } from "../../src/turns.ts";
import { Columns, header, marks as marksOf, rows } from "../model_writer.ts";

function lane(lengths: number[]): Lane {
  const ends = lengths.map((_, index) => lengths.slice(0, index + 1).reduce((sum, length) => sum + length, 0));
  const begins = [0, ...ends.slice(0, -1)];
  return new Lane("congestion_state", "", ["recovery", "congestion_avoidance"], Float64Array.from(begins), Float64Array.from(ends), Uint16Array.from(lengths, (_, index) => index % 2), lengths.length);
}

test("alternating short states are one run, long ones are drawn one by one", () => {
  const flapping = lane([900, 5, 5, 5, 5, 5, 5, 5, 5, 800, 700]);
  const runs = runsOf(flapping, 0, flapping.length, 10);
  assert.deepEqual(runs, [{ begin: 0, end: 1, flaps: false }, { begin: 1, end: 9, flaps: true }, { begin: 9, end: 11, flaps: false }]);
  assert.deepEqual(labelsOf(flapping, runs[1] as (typeof runs)[0]), ["7 changes: congestion avoidance ⇄ recovery", "7 changes", "7×"]);
  assert.deepEqual(runsOf(lane([900, 5, 5, 800]), 0, 4, 10), [{ begin: 0, end: 4, flaps: false }], "two short states do not count as alternating");
  assert.deepEqual(runsOf(flapping, 0, flapping.length, 1), [{ begin: 0, end: 11, flaps: false }], "when zoomed in, all are drawn one by one");
});

const isOrange = (colour: string): boolean => {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) as [number, number, number];
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  const hue = most === red ? (60 * (green - blue)) / Math.max(1, most - least) : 180;
  return hue > 14 && hue < 42 && most - least > 60;
};

test("orange is only used for recovery and the events that start it", () => {
  const named: [string, readonly [string, string]][] = [
    ...Object.entries(CURVES),
    ...STATES.map(([pattern, colours]): [string, readonly [string, string]] => [pattern.source, colours]),
    ...Object.entries(MARKS),
    ...[...OTHER_CURVES, ...OTHER_STATES].map((colours): [string, readonly [string, string]] => ["other", colours]),
  ];
  assert.deepEqual(named.filter(([, colours]) => colours.some(isOrange)).map(([name]) => name), ["recovery|^loss", "congestion_event"]);
});

test("no two things have the same colour", () => {
  const { lost_counted: counted, ...marks } = MARKS;
  assert.deepEqual(counted, marks["lost"], "counted losses have the colour of losses");
  const all = [...Object.values(CURVES), ...STATES.map(([, colours]) => colours), ...Object.values(marks), ...OTHER_CURVES, ...OTHER_STATES];
  for (const theme of [0, 1] as const) {
    const colours = all.map((pair) => pair[theme]);
    assert.deepEqual(colours.filter((colour, index) => colours.indexOf(colour) !== index), []);
  }
});

test("counted losses are marks that each stand for several packets", () => {
  const columns = new Columns();
  const marks = [marksOf("lost_counted", { time: columns.add(Float64Array.of(5, 9)), count: columns.add(Float64Array.of(3, 7)) })];
  const bytes = columns.bytes();
  const trace = decode(header({ marks }), bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer);
  assert.equal(trace.marks[0]?.total, 10);
  append(trace, rows({ marks: { lost_counted: [[12, 4]] } }));
  assert.deepEqual([trace.marks[0]?.length, trace.marks[0]?.total], [3, 14]);
});
