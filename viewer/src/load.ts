/** Loads traces from script elements of the page itself, or from the program that serves it. */
import { columnsLength, decode, type Trace } from "./model.ts";
import type { Header, TraceName } from "./protocol.ts";

/** A trace that can be loaded. */
export interface Source {
  readonly name: string;
  /** Loads the trace once; later calls return the same one. */
  load(): Promise<Trace>;
}

/** The traces of this page, in the order of the command line. Empty if there are none. */
export async function sources(): Promise<Source[]> {
  const inside = embedded();
  if (inside.length > 0 || !location.protocol.startsWith("http")) return inside;
  const answer = await fetch("traces.json");
  if (!answer.ok) return [];
  const list = (await answer.json()) as TraceName[];
  return list.map(({ name }, index) => ({ name, load: once(() => served(index)) }));
}

function once(load: () => Promise<Trace>): () => Promise<Trace> {
  let loaded: Promise<Trace> | null = null;
  return () => (loaded ??= load());
}

async function served(index: number): Promise<Trace> {
  const [header, columns] = await Promise.all([
    get(`${index}/header.json`).then((answer) => answer.json() as Promise<Header>),
    get(`${index}/columns.bin`).then((answer) => answer.arrayBuffer()),
  ]);
  return decode(header, columns);
}

async function get(address: string): Promise<Response> {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status} ${answer.statusText}`);
  return answer;
}

function embedded(): Source[] {
  const found: Source[] = [];
  for (let index = 0; ; index += 1) {
    const header = document.getElementById(`trace-${index}-header`);
    const columns = document.getElementById(`trace-${index}-columns`);
    if (header === null || columns === null) return found;
    const read = JSON.parse(header.textContent ?? "") as Header;
    found.push({ name: read.title, load: once(() => unpack(read, columns)) });
  }
}

async function unpack(header: Header, columns: HTMLElement): Promise<Trace> {
  const packed = base64(columns.textContent ?? "");
  columns.remove();
  return decode(header, await gunzip(packed, columnsLength(header)));
}

function base64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native !== undefined) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

/** Decompresses into one block of the length that the header states; the last column may be padded to a multiple of 8. */
async function gunzip(packed: Uint8Array<ArrayBuffer>, length: number): Promise<ArrayBuffer> {
  const whole = new Uint8Array(Math.ceil(length / 8) * 8);
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  let filled = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (filled + value.length > whole.length) throw new Error("the columns are longer than the header says");
    whole.set(value, filled);
    filled += value.length;
  }
  if (filled < length) throw new Error(`the columns have only ${filled} bytes of ${length}`);
  return whole.buffer;
}
