/** Writes models as the program does: a header, one block of columns, and a page that contains both. */
import { gzipSync } from "node:zlib";
import { VERSION, type ColumnPlace, type Finding, type Header, type LaneHeader, type MarksHeader, type Rows, type SeriesHeader } from "../src/protocol.ts";

const NAMES = new Map<unknown, ColumnPlace["type"]>([
  [Float64Array, "f64"],
  [Uint32Array, "u32"],
  [Uint16Array, "u16"],
  [Uint8Array, "u8"],
]);

/** Columns one after another, each at a multiple of 8. */
export class Columns {
  private readonly parts: Uint8Array[] = [];
  private length = 0;

  add(column: Float64Array | Uint32Array | Uint16Array | Uint8Array): ColumnPlace {
    const type = NAMES.get(column.constructor);
    if (type === undefined) throw new Error("not a column");
    const place = { offset: this.length, length: column.length, type };
    this.parts.push(new Uint8Array(column.buffer, column.byteOffset, column.byteLength));
    const padding = (8 - (column.byteLength % 8)) % 8;
    this.parts.push(new Uint8Array(padding));
    this.length += column.byteLength + padding;
    return place;
  }

  bytes(): Buffer {
    return Buffer.concat(this.parts);
  }
}

/** A header with the fields that a test needs, and defaults for the others. */
export function header(more: Partial<Header> = {}): Header {
  const known = { version: VERSION, title: "trace", vantage: "unknown" as const, connection: null, dialect: "", duration_ms: 0, events: 0, unused: [] };
  return { ...known, damage: null, thinned: false, round_trip_ms: null, series: [], lanes: [], marks: [], ending: null, findings: [], ...more };
}

export function series(id: string, unit: SeriesHeader["unit"], more: Partial<SeriesHeader> = {}): SeriesHeader {
  return { id, title: id, unit, step: false, detail: false, ...more };
}

export function lane(id: string, more: Partial<LaneHeader> = {}): LaneHeader {
  return { id, title: id, names: [], ...more };
}

export function marks(id: string, more: Partial<MarksHeader> = {}): MarksHeader {
  return { id, title: id, ...more };
}

export function finding(id: string, headline: string, severity: number, begin_ms: number, end_ms: number, metrics: Finding["metrics"] = []): Finding {
  return { id, headline, severity, begin_ms, end_ms, metrics, meaning: "What it means.", causes: "What causes it." };
}

export function rows(more: Partial<Rows>): Rows {
  return { declared: [], series: {}, lanes: {}, marks: {}, ending: null, findings: [], ...more };
}

export interface Model {
  header: Header;
  columns: Buffer;
}

/** The elements that replace the placeholder of the page. */
export function elements(models: Model[]): string {
  return models
    .map(({ header, columns }, index) => {
      const json = JSON.stringify(header).replaceAll("<", "\\u003c");
      const packed = gzipSync(columns, { level: 4 }).toString("base64");
      return `<script type="application/json" id="trace-${index}-header">${json}</script>\n<script type="text/plain" id="trace-${index}-columns">${packed}</script>\n`;
    })
    .join("");
}

export const PLACEHOLDER = "<!--clearway:traces-->";

export function pageWith(page: string, models: Model[]): string {
  if (page.split(PLACEHOLDER).length !== 2) throw new Error("the page has to contain exactly one placeholder");
  return page.replace(PLACEHOLDER, () => elements(models));
}
