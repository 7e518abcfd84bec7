/** The messages from the program to a page. Written by `cargo xtask viewer --types` from crates/qlog/src/model/header.rs. */

export const VERSION = 1;

/** What happened to a packet, by its number in the column `kind`. */
export const KINDS = ["sent", "received", "lost", "dropped"] as const;

/** The row of a mark that does not refer to a packet. */
export const NO_PACKET = 4294967295;

/** Where a trace was written. */
export type VantagePoint = "client" | "server" | "network" | "unknown";

/** The type of a column's elements, which are little-endian. */
export type ColumnType = "f64" | "u32" | "u16" | "u8";

/** The location of a column in the block of columns. */
export type ColumnPlace = {
  /** The offset of its first byte, a multiple of 8. */
  offset: number,
  /** The number of its elements. */
  length: number,
  /** The type of its elements. */
  type: ColumnType,
};

/** The unit of a series. */
export type Unit = "bytes" | "bytes/s" | "ms";

/** A quantity over time. */
export type SeriesHeader = {
  /** Its identifier in the protocol. */
  id: string,
  /** Its name on the page. */
  title: string,
  /** The unit of its values. */
  unit: Unit,
  /** Whether a value holds until the next one; otherwise samples are joined by straight lines. */
  step: boolean,
  /** Whether it is hidden until the user selects it. */
  detail: boolean,
  /** Times in ms, ascending. */
  time?: ColumnPlace,
  /** The values; NaN: unknown from here on. */
  value?: ColumnPlace,
};

/** States over time. */
export type LaneHeader = {
  /** Its identifier in the protocol. */
  id: string,
  /** Its name on the page. */
  title: string,
  /** The names of its states. */
  names: Array<string>,
  /** When each segment begins, in ms, ascending. */
  begin?: ColumnPlace,
  /** When each segment ends, in ms. */
  end?: ColumnPlace,
  /** The state of each segment, an index into `names`. */
  state?: ColumnPlace,
};

/** Points in time at which something happened. */
export type MarksHeader = {
  /** Their identifier in the protocol. */
  id: string,
  /** Their name on the page. */
  title: string,
  /** Times in ms, ascending. */
  time?: ColumnPlace,
  /** The row of the packet that each mark refers to, or `NO_PACKET`. */
  packet?: ColumnPlace,
  /** The number of packets that each mark represents; without this column, one. */
  count?: ColumnPlace,
};

/** The table of packets. */
export type PacketsHeader = {
  /** Times in ms, ascending. */
  time: ColumnPlace,
  /** The kind of event of each row, an index into `KINDS`. */
  kind: ColumnPlace,
  /** The packet type of each row, an index into `spaces`. */
  space: ColumnPlace,
  /** The names of packet types. */
  spaces: Array<string>,
  /** Packet numbers; NaN: none. */
  number: ColumnPlace,
  /** Sizes in bytes; 0: unknown. */
  size: ColumnPlace,
  /** The offset in `text` at which the frames of each packet begin, followed by the offset at
   * which those of the last packet end. */
  frames: ColumnPlace,
};

/** A problem that a trace shows. */
export type Finding = {
  /** Its identifier in the catalog. */
  id: string,
  /** A summary, in twelve words at most. */
  headline: string,
  /** The approximate time that the problem cost, in seconds; findings are ordered by it. */
  severity: number,
  /** The time at which the problem began. */
  begin_ms: number,
  /** The time at which the problem ended. */
  end_ms: number,
  /** The measurements: the name, and the value with its unit. */
  metrics: Array<[string, string]>,
  /** An explanation of what the finding means. */
  meaning: string,
  /** The usual causes. */
  causes: string,
};

/** Damage in a file. */
export type Damage = {
  /** The number of bytes that were read, after decompression. */
  offset: number,
  /** A description of the damage. */
  why: string,
};

/** How a connection ended. */
export type Ending = {
  /** One line: which endpoint closed it, when, and why. It may contain text from the peer. */
  text: string,
  /** Whether it failed: it ended with an error, or before the handshake was complete. */
  failed: boolean,
};

/** A trace without its columns. While it is being written, its series, lanes and marks have no columns, and it has no
 * packets. */
export type Header = {
  /** The version of this layout. */
  version: number,
  /** The title of the trace. */
  title: string,
  /** The Original Destination Connection ID (RFC 9000, section 7.2) in lower-case hexadecimal, which is the same at
   * both ends; null: unknown. */
  connection: string | null,
  /** Where the trace was written. */
  vantage: VantagePoint,
  /** The qlog version or schemas that the file names. */
  dialect: string,
  /** The duration of the trace in ms. */
  duration_ms: number,
  /** The number of events that were read. */
  events: number,
  /** The names of events that are not shown, and the number of each. */
  unused: Array<[string, number]>,
  /** Where the file is damaged, if it is. */
  damage: Damage | null,
  /** Whether samples, states or packets were left out to keep the page small. */
  thinned: boolean,
  /** The median smoothed RTT in ms, which is the unit of the axis in round trips; null: unknown. */
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
  /** How the connection ended; null if it is still open. */
  ending: Ending | null,
  /** The detected problems, worst first. */
  findings: Array<Finding>,
};

/** The additions to a trace that is still being written. */
export type Rows = {
  /** Series that the header did not declare. */
  declared: Array<SeriesHeader>,
  /** For each series, new points: time and value; null: unknown from here on. */
  series: { [key in string]: Array<[number, number | null]> },
  /** For each lane, new segments: begin, end and state; end null: it has not ended. */
  lanes: { [key in string]: Array<[number, number | null, string]> },
  /** For each kind of mark, new marks: time, and the number of packets that each represents;
   * null: one. */
  marks: { [key in string]: Array<[number, number | null]> },
  /** How the connection ended; null if it is still open. */
  ending: Ending | null,
  /** All findings so far, worst first. */
  findings: Array<Finding>,
};

/** A trace in the list of traces that a program serves. */
export type TraceName = {
  /** The name of the trace. */
  name: string,
};
