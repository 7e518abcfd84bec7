/** What the program sends a page. Written by `cargo xtask viewer --types` from crates/qlog/src/model/header.rs. */

export const VERSION = 1;

/** What happened to a packet, by its number in the column `kind`. */
export const KINDS = ["sent", "received", "lost", "dropped"] as const;

/** The row of a mark that concerns no packet. */
export const NO_PACKET = 4294967295;

/** Which end a trace was written at. */
export type VantagePoint = "client" | "server" | "network" | "unknown";

/** The type of a column's elements, which are little-endian. */
export type ColumnType = "f64" | "u32" | "u16" | "u8";

/** Where a column lies in the block of columns. */
export type ColumnPlace = {
  /** Its first byte, a multiple of 8. */
  offset: number,
  /** How many elements it has. */
  length: number,
  /** What they are. */
  type: ColumnType,
};

/** The unit of a series. */
export type Unit = "bytes" | "bytes/s" | "ms";

/** A quantity over time. */
export type SeriesHeader = {
  /** Its name in the protocol. */
  id: string,
  /** Its name on the page. */
  title: string,
  /** The unit of its values. */
  unit: Unit,
  /** Whether a value holds until the next; otherwise samples are joined by straight lines. */
  step: boolean,
  /** Whether it is hidden until it is asked for. */
  detail: boolean,
  /** Times in ms, ascending. */
  time?: ColumnPlace,
  /** Values; NaN: unknown from here on. */
  value?: ColumnPlace,
};

/** States over time. */
export type LaneHeader = {
  /** Its name in the protocol. */
  id: string,
  /** Its name on the page. */
  title: string,
  /** The names of its states. */
  names: Array<string>,
  /** When each segment begins, in ms, ascending. */
  begin?: ColumnPlace,
  /** When it ends. */
  end?: ColumnPlace,
  /** Its state, an index into `names`. */
  state?: ColumnPlace,
};

/** Points in time at which something happened. */
export type MarksHeader = {
  /** Their name in the protocol. */
  id: string,
  /** Their name on the page. */
  title: string,
  /** Times in ms, ascending. */
  time?: ColumnPlace,
  /** The row of the packet that each concerns, or `NO_PACKET`. */
  packet?: ColumnPlace,
  /** How many packets each stands for; without this column, one. */
  count?: ColumnPlace,
};

/** The table of packets. */
export type PacketsHeader = {
  /** Times in ms, ascending. */
  time: ColumnPlace,
  /** What happened to each, an index into `KINDS`. */
  kind: ColumnPlace,
  /** The type of each, an index into `spaces`. */
  space: ColumnPlace,
  /** The names of packet types. */
  spaces: Array<string>,
  /** Packet numbers; NaN: none. */
  number: ColumnPlace,
  /** Sizes in bytes; 0: unknown. */
  size: ColumnPlace,
  /** Where the frames of each begin in `text`, and a last one where those of the last packet end. */
  frames: ColumnPlace,
};

/** Something that a trace shows to be wrong. */
export type Finding = {
  /** Its name in the catalogue. */
  id: string,
  /** What was found, in twelve words at most. */
  headline: string,
  /** About how many seconds it cost; findings are ordered by it. */
  severity: number,
  /** When it began. */
  begin_ms: number,
  /** When it ended. */
  end_ms: number,
  /** What was measured: names, and values with their units. */
  metrics: Array<[string, string]>,
  /** What it means. */
  meaning: string,
  /** What usually causes it. */
  causes: string,
};

/** Where a file is damaged. */
export type Damage = {
  /** How many bytes were read, after decompression. */
  offset: number,
  /** What is wrong there. */
  why: string,
};

/** A trace without its columns. While it is being written, its series, lanes and marks have no columns, and it has no
 * packets. */
export type Header = {
  /** The version of this layout. */
  version: number,
  /** What the trace is called. */
  title: string,
  /** The Original Destination Connection ID (RFC 9000, section 7.2) in lower-case hexadecimal, which is the same at
   * both ends; null: unknown. */
  connection: string | null,
  /** The end that wrote the trace. */
  vantage: VantagePoint,
  /** The qlog version or schemas that the file names. */
  dialect: string,
  /** Its length in ms. */
  duration_ms: number,
  /** How many events were read. */
  events: number,
  /** Names of events that are not shown, and how many there were. */
  unused: Array<[string, number]>,
  /** Where the file is damaged, if it is. */
  damage: Damage | null,
  /** Whether samples or packets were left out to keep the page small. */
  thinned: boolean,
  /** The median smoothed RTT in ms, the unit of the axis in round trips; null: unknown. */
  round_trip_ms: number | null,
  /** Quantities over time. */
  series: Array<SeriesHeader>,
  /** States over time. */
  lanes: Array<LaneHeader>,
  /** Points in time at which something happened. */
  marks: Array<MarksHeader>,
  /** The table of packets. */
  packets?: PacketsHeader,
  /** The frames of all packets as text in UTF-8. */
  text?: ColumnPlace,
  /** What is wrong, worst first. */
  findings: Array<Finding>,
};

/** What is new of a trace that is still being written. */
export type Rows = {
  /** Series that the header did not declare. */
  declared: Array<SeriesHeader>,
  /** Of each series: time, and value; null: unknown from here on. */
  series: { [key in string]: Array<[number, number | null]> },
  /** Of each lane: begin, end and name of segments; null: it has not ended. */
  lanes: { [key in string]: Array<[number, number | null, string]> },
  /** Of all marks of a name: time, and how many packets each stands for; null: one. */
  marks: { [key in string]: Array<[number, number | null]> },
  /** All findings so far, worst first. */
  findings: Array<Finding>,
};

/** A trace in the list of those that a program serves. */
export type TraceName = {
  /** What it is called. */
  name: string,
};
