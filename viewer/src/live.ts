/** A trace that is still being written: rows arrive as server-sent events. */
import { decode, emptyCurve, type Curve, type Lane, type Marks, type Trace } from "./model.ts";
import { NO_PACKET, type Header, type Rows } from "./protocol.ts";

/** Receives the events of the stream. */
export interface Listener {
  begun(trace: Trace): void;
  grown(trace: Trace): void;
  /** The connection was established (true), or was lost and is being established again (false). */
  connected(now: boolean): void;
}

/** Follows the stream at `address`; false if there is none. */
export function follow(address: string, listener: Listener): Promise<boolean> {
  return new Promise((resolve) => {
    const stream = new EventSource(address);
    let trace: Trace | null = null;
    stream.addEventListener("open", () => {
      resolve(true);
      listener.connected(true);
    });
    stream.addEventListener("error", () => {
      resolve(false);
      if (trace === null && stream.readyState === EventSource.CLOSED) return;
      listener.connected(false);
    });
    stream.addEventListener("header", (event) => {
      trace = decode(JSON.parse((event as MessageEvent<string>).data) as Header, new ArrayBuffer(0));
      listener.begun(trace);
    });
    stream.addEventListener("rows", (event) => {
      if (trace === null) return;
      append(trace, JSON.parse((event as MessageEvent<string>).data) as Rows);
      listener.grown(trace);
    });
  });
}

/** Adds rows to a trace. */
export function append(trace: Trace, rows: Rows): void {
  for (const series of rows.declared) trace.curves.push(emptyCurve(series));
  for (const curve of trace.curves) for (const [time, value] of rows.series[curve.id] ?? []) addSample(trace, curve, time, value);
  for (const lane of trace.lanes) for (const [begin, end, name] of rows.lanes[lane.id] ?? []) addSegment(trace, lane, begin, end, name);
  for (const marks of trace.marks) for (const [time, count] of rows.marks[marks.id] ?? []) addMark(trace, marks, time, count);
  trace.ending = rows.ending;
  trace.findings = rows.findings;
  trace.roundTrip ??= median(trace);
}

function addSample(trace: Trace, curve: Curve, time: number, value: number | null): void {
  curve.time = roomFor(curve.time, curve.length);
  curve.value = roomFor(curve.value, curve.length);
  curve.time[curve.length] = time;
  curve.value[curve.length] = value ?? NaN;
  curve.length += 1;
  trace.duration = Math.max(trace.duration, time);
}

/** A row with the beginning and state of an earlier segment sets its end; an open segment ends where the next begins, and continues if that has the same state. */
function addSegment(trace: Trace, lane: Lane, begin: number, end: number | null, name: string): void {
  if (!lane.names.includes(name)) lane.names.push(name);
  const state = lane.names.indexOf(name);
  for (let index = lane.length - 1; index >= 0 && index >= lane.length - lane.names.length; index -= 1) {
    if (lane.begin[index] !== begin || lane.state[index] !== state) continue;
    lane.end[index] = end ?? Infinity;
    trace.duration = Math.max(trace.duration, end ?? begin);
    return;
  }
  const last = lane.length - 1;
  if (last >= 0 && end === null && lane.end[last] === Infinity && lane.state[last] === state) return;
  if (lane.id !== "suppressors" && last >= 0 && lane.end[last] === Infinity) lane.end[last] = begin;
  lane.begin = roomFor(lane.begin, lane.length);
  lane.end = roomFor(lane.end, lane.length);
  lane.state = roomFor(lane.state, lane.length);
  lane.begin[lane.length] = begin;
  lane.end[lane.length] = end ?? Infinity;
  lane.state[lane.length] = state;
  lane.length += 1;
  trace.duration = Math.max(trace.duration, end ?? begin);
}

function addMark(trace: Trace, marks: Marks, time: number, count: number | null): void {
  marks.time = roomFor(marks.time, marks.length);
  marks.packet = roomFor(marks.packet, marks.length);
  marks.time[marks.length] = time;
  marks.packet[marks.length] = NO_PACKET;
  if (count !== null) {
    marks.count = roomFor(marks.count ?? new Float64Array(marks.time.length), marks.length);
    marks.count[marks.length] = count;
  }
  marks.length += 1;
  trace.duration = Math.max(trace.duration, time);
}

/** The same array, or a copy twice as long if it has no index `length`. */
function roomFor<T extends Float64Array | Uint32Array | Uint16Array>(array: T, length: number): T {
  if (length < array.length) return array;
  const larger = new (array.constructor as new (length: number) => T)(Math.max(256, array.length * 2));
  larger.set(array);
  return larger;
}

/** The median smoothed RTT of the first 32 or more samples. It is not computed again, so that the axis of a live trace keeps its unit. */
function median(trace: Trace): number | null {
  const curve = trace.curves.find(({ id }) => id === "smoothed_rtt");
  if (curve === undefined || curve.length < 32) return null;
  return curve.value.slice(0, curve.length).sort()[curve.length >>> 1] ?? null;
}
