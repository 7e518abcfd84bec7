/** Synthetic traces: a healthy sender, one that is stuck like the sender of the published bug, and a very long one. They are identical in every run. */
import type { Finding, Header, LaneHeader, SeriesHeader } from "../src/protocol.ts";
import { Columns, finding, header as headerWith, series, type Model } from "./model_writer.ts";

/** A small pseudorandom number generator for values between 0 and 1. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

interface Packet {
  time: number;
  kind: 0 | 1 | 2 | 3;
  number: number;
  size: number;
  frames: string;
}

/** A trace under construction. */
class Draft {
  readonly series = new Map<string, [number, number][]>();
  readonly lanes = new Map<string, [begin: number, end: number, name: string][]>();
  readonly marks = new Map<string, [time: number, packet: number][]>();
  readonly packets: Packet[] = [];
  readonly findings: Finding[] = [];

  sample(id: string, time: number, value: number): void {
    const samples = this.series.get(id);
    if (samples) samples.push([time, value]);
    else this.series.set(id, [[time, value]]);
  }

  enter(lane: string, time: number, name: string): void {
    const segments = this.lanes.get(lane) ?? [];
    this.lanes.set(lane, segments);
    const last = segments.at(-1);
    if (last?.[2] === name) return;
    if (last) last[1] = time;
    segments.push([time, Infinity, name]);
  }

  mark(id: string, time: number, packet = 0xffffffff): void {
    const marks = this.marks.get(id) ?? [];
    this.marks.set(id, marks);
    marks.push([time, packet]);
  }

  packet(packet: Packet): number {
    return this.packets.push(packet) - 1;
  }

  write(title: string, duration: number, roundTrip: number, more: Partial<Header> = {}): Model {
    const columns = new Columns();
    const header = headerWith({
      title,
      vantage: "server",
      dialect: "qlog 0.4, quic-12",
      duration_ms: duration,
      events: this.packets.length + [...this.series.values()].reduce((sum, samples) => sum + samples.length, 0),
      round_trip_ms: roundTrip,
      series: [...this.series].map(([id, samples]) => ({
        ...(SERIES[id] as SeriesHeader),
        step: id !== "latest_rtt" && id !== "goodput",
        time: columns.add(Float64Array.from(samples, ([time]) => time)),
        value: columns.add(Float64Array.from(samples, ([, value]) => value)),
      })),
      lanes: [...this.lanes].map(([id, segments]) => writeLane(columns, id, segments, duration)),
      marks: [...this.marks].map(([id, marks]) => ({
        id,
        title: MARKS[id] ?? id,
        time: columns.add(Float64Array.from(marks, ([time]) => time)),
        packet: columns.add(Uint32Array.from(marks, ([, packet]) => packet)),
      })),
      findings: this.findings,
      ...more,
    });
    writePackets(columns, header, this.packets);
    return { header, columns: columns.bytes() };
  }
}

const SERIES = Object.fromEntries(
  [
    series("congestion_window", "bytes", { title: "congestion window" }),
    series("bytes_in_flight", "bytes", { title: "bytes in flight" }),
    series("slow_start_threshold", "bytes", { title: "slow start threshold" }),
    series("pacing_rate", "bytes/s", { title: "pacing rate" }),
    series("goodput", "bytes/s"),
    series("smoothed_rtt", "ms", { title: "smoothed RTT" }),
    series("latest_rtt", "ms", { title: "latest RTT" }),
    series("minimum_rtt", "ms", { title: "minimum RTT" }),
    series("controller.w_max", "bytes", { title: "w_max", detail: true }),
  ].map((declared) => [declared.id, declared]),
);
const LANES: Record<string, string> = { congestion_state: "congestion state", blocked: "sending blocked by", suppressors: "growth suppressed by" };
const MARKS: Record<string, string> = { lost: "Lost packets", pto: "Probe timeouts", congestion_event: "Congestion events", spurious: "Spurious losses", ce: "CE marks" };

function writeLane(columns: Columns, id: string, segments: [number, number, string][], duration: number): LaneHeader {
  const names = [...new Set(segments.map(([, , name]) => name))];
  return {
    id,
    title: LANES[id] ?? id,
    names,
    begin: columns.add(Float64Array.from(segments, ([begin]) => begin)),
    end: columns.add(Float64Array.from(segments, ([, end]) => Math.min(end, duration))),
    state: columns.add(Uint16Array.from(segments, ([, , name]) => names.indexOf(name))),
  };
}

function writePackets(columns: Columns, header: Header, packets: Packet[]): void {
  const offsets = new Uint32Array(packets.length + 1);
  packets.forEach(({ frames }, index) => (offsets[index + 1] = (offsets[index] as number) + frames.length));
  header.packets = {
    spaces: ["initial", "handshake", "1RTT"],
    time: columns.add(Float64Array.from(packets, ({ time }) => time)),
    kind: columns.add(Uint8Array.from(packets, ({ kind }) => kind)),
    space: columns.add(Uint8Array.from(packets, ({ number }) => (number < 2 ? 0 : number < 4 ? 1 : 2))),
    number: columns.add(Float64Array.from(packets, ({ number }) => number)),
    size: columns.add(Uint32Array.from(packets, ({ size }) => size)),
    frames: columns.add(offsets),
  };
  header.text = columns.add(new Uint8Array(Buffer.from(packets.map(({ frames }) => frames).join(""), "latin1")));
}

const DATAGRAM = 1350;

/** 10 MB at 20 Mbit/s and 50 ms: slow start, one loss, then a sawtooth. */
export function healthy(): Model {
  const draft = new Draft();
  const random = generator(7);
  const [roundTrip, end] = [50, 4200];
  let [window, threshold, number, received] = [10 * DATAGRAM, Infinity, 0, 0];
  draft.enter("congestion_state", 0, "slow_start");
  draft.sample("minimum_rtt", roundTrip, roundTrip);
  for (let round = 0; round * roundTrip < end; round += 1) {
    const begin = round * roundTrip;
    const packets = Math.floor(window / DATAGRAM);
    draft.enter("suppressors", begin, round % 9 === 8 ? "application_limited" : "nothing");
    for (let index = 0; index < packets; index += 1) {
      const time = begin + (index / packets) * roundTrip * 0.9;
      const inFlight = Math.min(window, (index + 1) * DATAGRAM + window * 0.4);
      draft.packet({ time, kind: 0, number, size: DATAGRAM, frames: `STREAM 0 ${number * 1320}+1320` });
      draft.sample("bytes_in_flight", time, inFlight);
      if (index % 2 === 0) draft.packet({ time: time + 0.4, kind: 1, number: received++, size: 38, frames: `ACK 0-${Math.max(0, number - 10)} delay 0.2 ms` });
      number += 1;
      const queue = Math.max(0, window - 125000) / 2500;
      draft.sample("latest_rtt", time, roundTrip + queue + random() * 2.5);
      draft.sample("smoothed_rtt", time, roundTrip + queue + 1.2);
    }
    draft.enter("blocked", begin, "pacing");
    draft.enter("blocked", begin + roundTrip * 0.9, "congestion_control");
    draft.sample("goodput", begin, Math.min((window / roundTrip) * 1000, 2_500_000) * 0.96);
    draft.sample("pacing_rate", begin, (window / roundTrip) * 1250);
    if (window > 190_000) {
      const lost = draft.packet({ time: begin + 48, kind: 2, number: number - 20, size: DATAGRAM, frames: `STREAM 0 ${(number - 20) * 1320}+1320` });
      draft.mark("lost", begin + 48, lost);
      draft.mark("congestion_event", begin + 48);
      draft.sample("controller.w_max", begin + 48, window);
      threshold = window = Math.floor(window * 0.7);
      draft.enter("congestion_state", begin + 48, "recovery");
      draft.sample("slow_start_threshold", begin + 48, threshold);
    } else if (window >= threshold) {
      draft.enter("congestion_state", begin + 48, "congestion_avoidance");
      window += DATAGRAM * 2.2;
    } else window = Math.min(window * 2, 200_000);
    draft.sample("congestion_window", begin + 48, window);
  }
  return draft.write("healthy: cubic, 20 Mbit/s, 50 ms", end, roundTrip);
}

/** The published bug: after two seconds of loss the window stays at two packets, and the state alternates once in each round trip. */
export function pinned(): Model {
  const draft = new Draft();
  const random = generator(3);
  const roundTrip = 10;
  let [window, number, received, sent] = [10 * DATAGRAM, 0, 0, 0];
  draft.enter("congestion_state", 0, "slow_start");
  draft.sample("minimum_rtt", 5, 10);
  for (let time = 0; time < 9000; time += roundTrip) {
    const lossy = time > 60 && time < 2000;
    const acknowledged = sent;
    sent = window / DATAGRAM;
    for (let index = 0; index < Math.max(sent, acknowledged); index += 1) {
      const at = time + (index * 8) / Math.max(sent, acknowledged);
      if (index < acknowledged) draft.packet({ time: at, kind: 1, number: received++, size: 36, frames: `ACK 0-${number}` });
      if (index >= sent) continue;
      const packet = draft.packet({ time: at, kind: 0, number, size: DATAGRAM, frames: `STREAM 4 ${number * 1320}+1320` });
      number += 1;
      draft.sample("bytes_in_flight", at, (index + 1) * DATAGRAM);
      if (lossy && random() < 0.3) draft.mark("lost", at, packet);
    }
    draft.sample("bytes_in_flight", time + roundTrip - 0.2, 0);
    draft.enter("blocked", time, "congestion_control");
    draft.sample("latest_rtt", time, roundTrip + random() * 3);
    draft.sample("smoothed_rtt", time, roundTrip + 1.5);
    draft.sample("goodput", time, (window / 14) * 1000 * (lossy ? 0.6 : 0.95));
    draft.sample("pacing_rate", time, (window / roundTrip) * 1250);
    if (!lossy && time < 60) window = Math.min(window * 2, 110_000);
    else if (window > 2 * DATAGRAM) {
      window = Math.max(2 * DATAGRAM, window / 2);
      draft.mark("congestion_event", time);
      draft.sample("slow_start_threshold", time, window);
    }
    if (lossy && random() < 0.04) draft.mark("pto", time);
    draft.enter("congestion_state", time, time < 60 ? "slow_start" : "recovery");
    if (time >= 60) draft.enter("congestion_state", time + 6, "congestion_avoidance");
    draft.sample("congestion_window", time, window);
  }
  draft.findings.push(
    finding("Q1", "Congestion window pinned at its floor (2 datagrams) for 7.0 s without loss", 6.98, 2010, 8990, [
      ["congestion window", "2,700 bytes (2 datagrams)"],
      ["duration", "7.0 s"],
      ["enters and leaves recovery every", "10.0 ms (one round trip)"],
    ]),
    finding("Q4", "Recovery entered 698 times in 7.0 s without loss", 6.9, 2010, 8990, [["entries into recovery", "698"]]),
    finding("Q9", "40 probe timeouts in 1.9 s", 0.4, 80, 1990, [["packets lost", "30 %"]]),
  );
  const model = draft.write("the published bug: <pinned> at two packets", 9000, 11.5);
  model.header.unused = [["transport:datagrams_sent", 1204], ["security:key_updated", 4]];
  model.header.ending = { text: "closed by the client (the peer) after 9.0 s: H3_INTERNAL_ERROR (0x102)", failed: true };
  model.header.damage = { offset: 1838111, why: "the last record ends in the middle" };
  return model;
}

/** A sender whose RTT is the initial 333 ms until its first sample at 400 ms, and 15 ms from then on. */
export function initialRtt(): Model {
  const draft = new Draft();
  for (const estimate of ["smoothed_rtt", "minimum_rtt"]) draft.sample(estimate, 0, 333);
  for (let time = 400; time < 4000; time += 15) {
    draft.sample("latest_rtt", time, 15 + (time % 4));
    draft.sample("smoothed_rtt", time, 15);
    draft.sample("minimum_rtt", time, 14);
    draft.sample("congestion_window", time, 12_000 + time);
  }
  return draft.write("an initial RTT", 4000, 15);
}

/** The one sample of the long trace that is greater than all others. */
export const SPIKE = { time: 33_333.3, value: 900_000 };

/** A million events: 800,000 packets and their samples over a minute. */
export function million(): Model {
  const draft = new Draft();
  const random = generator(11);
  const [packets, end] = [800_000, 60_000];
  let window = 300_000;
  for (let index = 0; index < packets; index += 1) {
    const time = (index / packets) * end;
    const sent = index % 3 !== 2;
    draft.packets.push({ time, kind: sent ? 0 : 1, number: index, size: sent ? 1350 : 40, frames: sent ? `STREAM 0 ${index * 1320}+1320` : `ACK 0-${index}` });
    if (sent) draft.sample("bytes_in_flight", time, window * (0.6 + random() * 0.4));
    if (index % 8 === 0) {
      window = window > 500_000 ? 350_000 : window + 1350 * (0.2 + random());
      draft.sample("congestion_window", time, window);
      draft.sample("pacing_rate", time, window * 25 * (0.9 + random() * 0.2));
      draft.sample("latest_rtt", time, 40 + random() * 12 + window / 40_000);
      draft.sample("smoothed_rtt", time, 46 + window / 40_000);
    }
    if (index % 80 === 0) draft.sample("goodput", time, window * 22);
    if (index % 40 === 0) draft.enter("congestion_state", time, ["congestion_avoidance", "recovery", "application_limited"][Math.floor(random() * 3)] as string);
    if (index % 8 === 4) draft.enter("blocked", time, index % 16 === 4 ? "pacing" : "congestion_control");
    if (index % 200 === 7) draft.mark("lost", time, index);
  }
  const inFlight = draft.series.get("bytes_in_flight") as [number, number][];
  const place = inFlight.findIndex(([time]) => time >= SPIKE.time);
  inFlight[place] = [SPIKE.time, SPIKE.value];
  draft.findings.push(finding("Q7", "Bytes in flight rise to 900 kB once", 1, SPIKE.time - 20, SPIKE.time + 20));
  return draft.write("a million events", end, 48);
}

/**
 * The traces of the two endpoints of one connection, the server's first: a download at 2 Mbit/s with 10 ms of delay in each direction, over a queue that
 * fills once. The server's trace begins 5 ms after the client's. Every 40th data packet is lost; packet 121 is late, is declared lost, and arrives.
 */
export function ends(): [server: Model, client: Model] {
  const [way, later] = [10, 5];
  const [server, client] = [new EndpointPackets(later), new EndpointPackets(0)];
  client.add({ time: 0, kind: 0, number: 0, size: 1200, frames: "CRYPTO 0+280" });
  server.add({ time: way, kind: 1, number: 0, size: 1200, frames: "CRYPTO 0+280" });
  for (let number = 0; number < 400; number += 1) {
    const time = way + 1 + number * 5;
    const data = { number, size: number % 25 === 24 ? 700 + number : DATAGRAM, frames: `STREAM 0 ${number * 1320}+1320` };
    const takes = number === 121 ? 55 : way + Math.max(0, 12 - Math.abs(number - 260) / 5);
    const isLost = number % 40 === 39;
    server.add({ ...data, time, kind: 0 });
    if (isLost || number === 121) server.add({ ...data, time: time + 35, kind: 2 });
    if (isLost) continue;
    const acknowledgment = { number: number + 1, size: 34 + (number % 7), frames: `ACK 0-${number}` };
    client.add({ ...data, time: time + takes, kind: 1 });
    client.add({ ...acknowledgment, time: time + takes + 0.2, kind: 0 });
    if (number % 90 !== 50) server.add({ ...acknowledgment, time: time + takes + 0.2 + way, kind: 1 });
  }
  const [seen, end] = ["8394c8f03e515708", 2060];
  return [
    server.write("a download, seen by the server", end - later, { vantage: "server", connection: seen }),
    client.write("a download, seen by the client", end, { vantage: "client", connection: seen }),
  ];
}

/** The packets that one endpoint sends and receives; its clock begins at its own time. */
class EndpointPackets {
  private readonly packets: Packet[] = [];

  constructor(private readonly begin: number) {}

  add(packet: Packet): void {
    this.packets.push({ ...packet, time: packet.time - this.begin });
  }

  write(title: string, duration: number, more: Partial<Header>): Model {
    const draft = new Draft();
    let inFlight = 0;
    for (const packet of this.packets.sort((one, other) => one.time - other.time)) {
      const row = draft.packet(packet);
      if (packet.kind === 0) inFlight += packet.size;
      else inFlight = Math.max(0, inFlight - DATAGRAM);
      if (packet.kind === 2) draft.mark("lost", packet.time, row);
      if (more.vantage === "server") draft.sample("bytes_in_flight", packet.time, inFlight);
      if (packet.kind === 1) draft.sample("smoothed_rtt", packet.time, 21 + packet.number / 200);
    }
    return draft.write(title, duration, 21, more);
  }
}
