/** A trace in memory, and how it is decoded from its header and its columns. README.md describes the format. */
import { Extremes } from "./thin.ts";
import { lastAtOrBefore } from "./search.ts";
import { VERSION, type ColumnPlace, type Damage, type Ending, type Finding, type Header, type LaneHeader, type MarksHeader, type SeriesHeader, type VantagePoint } from "./protocol.ts";

/** A quantity over time. */
export class Curve {
  readonly extremes = new Extremes();

  constructor(
    readonly id: string,
    readonly title: string,
    readonly unit: string,
    /** Whether a value holds until the next one; otherwise samples are connected by straight lines. */
    readonly step: boolean,
    /** ms; ascending. */
    public time: Float64Array,
    /** NaN: unknown from here on. */
    public value: Float64Array,
    public length: number,
    /** Hidden until the reader selects it. */
    readonly detail = false,
  ) {}

  /** The last value known at a time, if there is one. */
  at(time: number): number | null {
    const index = lastAtOrBefore(this.time, this.length, time);
    const value = index < 0 ? NaN : (this.value[index] as number);
    return Number.isFinite(value) ? value : null;
  }

  /** The same, `by` ms later. */
  moved(by: number): Curve {
    return new Curve(this.id, this.title, this.unit, this.step, later(this.time, by), this.value, this.length, this.detail);
  }
}

/** States with their beginnings and ends, in the order of the beginnings. */
export class Lane {
  constructor(
    readonly id: string,
    readonly title: string,
    readonly names: string[],
    public begin: Float64Array,
    /** Infinity: the state has not ended. */
    public end: Float64Array,
    public state: Uint16Array,
    public length: number,
  ) {}

  /** The index of the state at a time, or -1. */
  at(time: number): number {
    const index = lastAtOrBefore(this.begin, this.length, time);
    return index >= 0 && (this.end[index] as number) > time ? index : -1;
  }

  name(index: number): string {
    return this.names[this.state[index] as number] ?? "?";
  }

  moved(by: number): Lane {
    return new Lane(this.id, this.title, this.names, later(this.begin, by), later(this.end, by), this.state, this.length);
  }
}

/** Points in time at which something happened. */
export class Marks {
  constructor(
    readonly id: string,
    readonly title: string,
    public time: Float64Array,
    /** The index of the packet that it happened to, or `NO_PACKET`. */
    public packet: Uint32Array,
    public length: number,
    /** The number of packets that each mark represents; null: one each. */
    public count: Float64Array | null = null,
  ) {}

  /** The number of packets that all marks together represent. */
  get total(): number {
    return this.count === null ? this.length : this.count.subarray(0, this.length).reduce((sum, count) => sum + count, 0);
  }

  moved(by: number): Marks {
    return new Marks(this.id, this.title, later(this.time, by), this.packet, this.length, this.count);
  }
}

const ESTIMATES = ["smoothed_rtt", "minimum_rtt"];

/** The time from which a curve is based on samples, in ms: before that, an RTT estimate is an initial value (RFC 9002, section 6.2.2). */
export function sampledFrom(trace: Pick<Trace, "curves">, curve: Curve): number {
  if (!ESTIMATES.includes(curve.id)) return -Infinity;
  const latest = trace.curves.find(({ id }) => id === "latest_rtt");
  return latest === undefined || latest.length === 0 ? -Infinity : (latest.time[0] as number);
}

/** The indices of these in `KINDS`. */
export const [SENT, RECEIVED, LOST] = [0, 1, 2] as const;

export class Packets {
  private readonly decoder = new TextDecoder();

  constructor(
    readonly length: number,
    readonly time: Float64Array,
    readonly kind: Uint8Array,
    readonly space: Uint8Array,
    readonly spaces: string[],
    readonly number: Float64Array,
    readonly size: Uint32Array,
    private readonly offsets: Uint32Array,
    private readonly text: Uint8Array,
  ) {}

  /** The frames of a packet as text. */
  frames(index: number): string {
    return this.decoder.decode(this.text.subarray(this.offsets[index] ?? 0, this.offsets[index + 1] ?? 0));
  }

  moved(by: number): Packets {
    return new Packets(this.length, later(this.time, by), this.kind, this.space, this.spaces, this.number, this.size, this.offsets, this.text);
  }
}

function later(times: Float64Array, by: number): Float64Array {
  const moved = new Float64Array(times.length);
  for (let index = 0; index < times.length; index += 1) moved[index] = (times[index] as number) + by;
  return moved;
}

export interface Trace {
  readonly title: string;
  readonly vantage: VantagePoint;
  /** The Original Destination Connection ID in lower-case hexadecimal, which is the same at both endpoints. null: unknown. */
  readonly connection: string | null;
  readonly dialect: string;
  duration: number;
  events: number;
  readonly unused: [string, number][];
  readonly damage: Damage | null;
  readonly thinned: boolean;
  /** The median smoothed round-trip time in ms, the unit of the axis in round trips. */
  roundTrip: number | null;
  readonly curves: Curve[];
  readonly lanes: Lane[];
  readonly marks: Marks[];
  readonly packets: Packets;
  /** How the connection ended; null if it is still open. */
  ending: Ending | null;
  findings: Finding[];
}

const TYPES = { f64: Float64Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array } as const;

/** The length in bytes of all columns that a header refers to. */
export function columnsLength(header: unknown): number {
  let length = 0;
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    const place = value as Partial<ColumnPlace>;
    if (isPlace(place)) length = Math.max(length, place.offset + place.length * TYPES[place.type].BYTES_PER_ELEMENT);
    else Object.values(value).forEach(visit);
  };
  visit(header);
  return length;
}

function isPlace(place: Partial<ColumnPlace>): place is ColumnPlace {
  return typeof place.offset === "number" && typeof place.length === "number" && typeof place.type === "string" && place.type in TYPES;
}

/** Reads columns from one block of bytes. */
class Reader {
  constructor(private readonly bytes: ArrayBuffer) {}

  f64(place: ColumnPlace | undefined): Float64Array {
    return this.read(place, Float64Array);
  }

  u32(place: ColumnPlace | undefined): Uint32Array {
    return this.read(place, Uint32Array);
  }

  u16(place: ColumnPlace | undefined): Uint16Array {
    return this.read(place, Uint16Array);
  }

  u8(place: ColumnPlace | undefined): Uint8Array {
    return this.read(place, Uint8Array);
  }

  private read<T>(place: ColumnPlace | undefined, wanted: { new (length: number): T; from(array: ArrayLike<number>): T }): T {
    if (place === undefined) return new wanted(0);
    const type = TYPES[place.type];
    if (type === undefined) throw new Error(`a column has the unknown type "${place.type}"`);
    const end = place.offset + place.length * type.BYTES_PER_ELEMENT;
    if (end > this.bytes.byteLength) throw new Error(`a column ends at byte ${end} of ${this.bytes.byteLength}`);
    const column = new type(this.bytes, place.offset, place.length);
    return column instanceof wanted ? column : wanted.from(column);
  }
}

/** Decodes a trace. Errors say what is inconsistent. */
export function decode(header: Header, bytes: ArrayBuffer): Trace {
  if (header.version !== VERSION) throw new Error(`the trace has version ${header.version}; this page reads version ${VERSION}`);
  const reader = new Reader(bytes);
  return {
    title: header.title,
    vantage: header.vantage,
    connection: header.connection,
    dialect: header.dialect,
    duration: header.duration_ms,
    events: header.events,
    unused: header.unused,
    damage: header.damage,
    thinned: header.thinned,
    roundTrip: header.round_trip_ms,
    curves: header.series.map((series) => decodeCurve(series, reader)),
    lanes: header.lanes.map((lane) => decodeLane(lane, reader)),
    marks: header.marks.map((marks) => decodeMarks(marks, reader)),
    packets: decodePackets(header, reader),
    ending: header.ending,
    findings: header.findings,
  };
}

function decodeCurve(series: SeriesHeader, reader: Reader): Curve {
  const time = reader.f64(series.time);
  const value = reader.f64(series.value);
  if (time.length !== value.length) throw new Error(`the series ${series.id} has ${time.length} times and ${value.length} values`);
  return new Curve(series.id, series.title, series.unit, series.step, time, value, time.length, series.detail);
}

/** A curve without samples. */
export function emptyCurve(series: SeriesHeader): Curve {
  return decodeCurve(series, new Reader(new ArrayBuffer(0)));
}

function decodeLane(lane: LaneHeader, reader: Reader): Lane {
  const [begin, end, state] = [reader.f64(lane.begin), reader.f64(lane.end), reader.u16(lane.state)];
  if (begin.length !== end.length || begin.length !== state.length) throw new Error(`the columns of the lane ${lane.id} differ in length`);
  return new Lane(lane.id, lane.title, [...lane.names], begin, end, state, begin.length);
}

function decodeMarks(marks: MarksHeader, reader: Reader): Marks {
  const [time, packet] = [reader.f64(marks.time), reader.u32(marks.packet)];
  const count = marks.count === undefined ? null : reader.f64(marks.count);
  if ((packet.length !== 0 && time.length !== packet.length) || (count !== null && time.length !== count.length)) throw new Error(`the columns of the marks ${marks.id} differ in length`);
  return new Marks(marks.id, marks.title, time, packet, time.length, count);
}

function decodePackets(header: Header, reader: Reader): Packets {
  const places = header.packets;
  const time = reader.f64(places?.time);
  const offsets = places ? reader.u32(places.frames) : new Uint32Array(1);
  if (offsets.length !== time.length + 1) throw new Error(`${time.length} packets have ${offsets.length} offsets of frames`);
  return new Packets(
    time.length,
    time,
    reader.u8(places?.kind),
    reader.u8(places?.space),
    places?.spaces ?? [],
    reader.f64(places?.number),
    reader.u32(places?.size),
    offsets,
    reader.u8(header.text),
  );
}
