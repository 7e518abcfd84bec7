/** Matches the packets that one endpoint received with those that the other sent, by packet number space and packet number. */
import { LOST, RECEIVED, SENT, type Packets } from "./model.ts";
import { NO_PACKET } from "./protocol.ts";
import { firstAtOrAfter } from "./search.ts";

/** The numbers of packets that were compared, and of those that agree at both endpoints; by size in bytes. */
export interface Likeness {
  readonly compared: Uint32Array;
  readonly same: Uint32Array;
}

/** The maximum size of a datagram. */
const LONGEST = 0xffff;

/** 0-RTT and 1-RTT packets share one packet number space (RFC 9000, section 12.3), and traces often name only the space of a lost packet. */
function spaceOf(type: string): string {
  return type === "0RTT" ? "1RTT" : type;
}

/** The packets that an endpoint sent in one space, in the order of their numbers. */
class Numbered {
  private readonly numbers: Float64Array;
  /** The index that was found last. */
  private near = 0;

  constructor(
    { number }: Packets,
    private readonly rows: Uint32Array,
  ) {
    this.numbers = new Float64Array(rows.length);
    for (let place = 0; place < rows.length; place += 1) this.numbers[place] = number[rows[place] as number] as number;
    if (isAscending(this.numbers)) return;
    // Senders count upwards, so this is only needed for a trace whose rows are out of order.
    rows.sort((one, other) => (number[one] as number) - (number[other] as number));
    this.numbers.sort();
  }

  /** Whether a number is between the first and the last. */
  spans(number: number): boolean {
    return number >= (this.numbers[0] as number) && number <= (this.numbers[this.numbers.length - 1] as number);
  }

  /** The row of a number, or `NO_PACKET`. */
  row(number: number): number {
    const { numbers } = this;
    // Numbers have few gaps and arrive nearly in order: usually the index differs from the last one by as much as the numbers do.
    let place = this.near + number - (numbers[this.near] as number);
    if (!(place >= 0 && place < numbers.length && numbers[place] === number)) place = firstAtOrAfter(numbers, numbers.length, number);
    if (place >= numbers.length || numbers[place] !== number) return NO_PACKET;
    this.near = place;
    return this.rows[place] as number;
  }
}

function isAscending(numbers: Float64Array): boolean {
  for (let index = 1; index < numbers.length; index += 1) if ((numbers[index] as number) < (numbers[index - 1] as number)) return false;
  return true;
}

/** The spaces of both endpoints, and for each endpoint a table from the space numbers in its packets to indices of these; -1: unknown. */
function commonSpaces(one: Packets, other: Packets): { count: number; ofOne: Int16Array; ofOther: Int16Array } {
  const common = [...new Set([...one.spaces, ...other.spaces].map(spaceOf))];
  const places = ({ spaces }: Packets): Int16Array => Int16Array.from({ length: 256 }, (_, space) => common.indexOf(spaceOf(spaces[space] ?? "")));
  return { count: common.length, ofOne: places(one), ofOther: places(other) };
}

/** The packets from one endpoint to the other. Tables are long, so each is read only once. */
export class Passage {
  /**
   * For each row of the sender: the row of the receiver at which the packet first arrived, or `NO_PACKET`. A row that declares a packet lost has the
   * same value as the row that sent it.
   */
  readonly arrivals: Uint32Array;
  /** The minimum difference of the receiver's clock at an arrival and the sender's clock at the sending, in ms; `Infinity` if nothing arrived. */
  readonly least: number;
  readonly likeness: Likeness = { compared: new Uint32Array(LONGEST + 1), same: new Uint32Array(LONGEST + 1) };
  private readonly sent: (Numbered | null)[];
  /** The rows that declare packets lost. */
  private readonly lost: number[] = [];

  constructor(
    private readonly from: Packets,
    private readonly to: Packets,
  ) {
    const { count, ofOne, ofOther } = commonSpaces(from, to);
    this.sent = this.numbered(count, ofOne);
    this.arrivals = new Uint32Array(from.length).fill(NO_PACKET);
    this.least = this.match(ofOther);
    for (const row of this.lost) {
      const sent = this.sent[ofOne[from.space[row] as number] as number]?.row(from.number[row] as number) ?? NO_PACKET;
      if (sent !== NO_PACKET) this.arrivals[row] = this.arrivals[sent] as number;
    }
  }

  /** The packets that were sent in each space. */
  private numbered(count: number, spaces: Int16Array): (Numbered | null)[] {
    const { kind, space, number, length } = this.from;
    const rows = Array.from({ length: count }, () => new Uint32Array(length));
    const counts = new Uint32Array(count);
    for (let row = 0; row < length; row += 1) {
      if (kind[row] === LOST) this.lost.push(row);
      const at = spaces[space[row] as number] as number;
      if (kind[row] !== SENT || at < 0 || !Number.isFinite(number[row])) continue;
      const place = counts[at] as number;
      (rows[at] as Uint32Array)[place] = row;
      counts[at] = place + 1;
    }
    return rows.map((all, at) => (counts[at] === 0 ? null : new Numbered(this.from, all.subarray(0, counts[at]))));
  }

  /** Finds the sent packet for each received one, and returns the minimum difference of the times. */
  private match(spaces: Int16Array): number {
    const { arrivals, sent, likeness } = this;
    const { time: sentAt, size: sentSize } = this.from;
    const { kind, space, number, size, time, length } = this.to;
    let least = Infinity;
    for (let row = 0; row < length; row += 1) {
      if (kind[row] !== RECEIVED) continue;
      const numbered = sent[spaces[space[row] as number] as number] ?? null;
      // Packets beyond the end of a truncated trace are not compared.
      if (numbered === null || !numbered.spans(number[row] as number)) continue;
      const sentRow = numbered.row(number[row] as number);
      compare(likeness, size[row] as number, sentRow === NO_PACKET ? 0 : (sentSize[sentRow] as number));
      if (sentRow === NO_PACKET || arrivals[sentRow] !== NO_PACKET) continue;
      arrivals[sentRow] = row;
      least = Math.min(least, (time[row] as number) - (sentAt[sentRow] as number));
    }
    return least;
  }
}

/** Counts a packet with its sizes at both endpoints; 0: unknown. */
function compare({ compared, same }: Likeness, received: number, sent: number): void {
  if (received === 0) return;
  const size = Math.min(received, LONGEST);
  compared[size] = (compared[size] as number) + 1;
  if (received === sent) same[size] = (same[size] as number) + 1;
}
