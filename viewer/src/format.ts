/** Numbers as readable text. */

/** At most three significant digits, without trailing zeros. */
function short(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const written = value.toFixed(digits);
  return digits === 0 ? written : written.replace(/\.?0+$/, "");
}

function scaled(value: number, units: readonly string[]): string {
  let rest = value;
  let unit = 0;
  while (Math.abs(rest) >= 999.5 && unit < units.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  return `${short(rest)} ${units[unit]}`;
}

/** A value of a series in its unit; rates are shown in bits per second, as is usual for links. */
export function quantity(value: number, unit: string): string {
  if (unit === "bytes") return scaled(value, ["B", "kB", "MB", "GB"]);
  if (unit === "bytes/s") return scaled(value * 8, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);
  if (unit === "ms") return duration(value);
  return `${short(value)} ${unit}`.trim();
}

/** As `quantity`, with its sign. */
export function difference(value: number, unit: string): string {
  return (value < 0 ? "−" : "+") + quantity(Math.abs(value), unit);
}

/** A length of time in ms. */
export function duration(milliseconds: number): string {
  const size = Math.abs(milliseconds);
  if (size === 0) return "0 ms";
  if (size < 0.9995) return `${short(milliseconds * 1000)} µs`;
  if (size < 999.5) return `${short(milliseconds)} ms`;
  return `${milliseconds >= 100000 ? (milliseconds / 1000).toFixed(0) : (milliseconds / 1000).toFixed(2)} s`;
}

/** The number of digits after the point that steps of `step` need: one for 0.1, two for 0.25. */
function digitsFor(step: number): number {
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step) - 1e-9)));
  const rest = step * 10 ** digits;
  return Math.abs(rest - Math.round(rest)) > 1e-6 ? digits + 1 : digits;
}

/** The unit in which times of a range are written: ms per unit, and its name. */
function clock(span: number, latest: number): [number, string] {
  if (Math.max(span, latest) < 1) return [0.001, "µs"];
  return span < 2000 && latest < 10_000 ? [1, "ms"] : [1000, "s"];
}

/** A point in time in ms, as precise as a range of `span` ms needs. */
export function instant(milliseconds: number, span: number): string {
  const [unit, name] = clock(span, Math.abs(milliseconds));
  const digits = Math.max(0, Math.ceil(-Math.log10(Math.max(span, 1e-6) / unit / 1000)));
  return `${(milliseconds / unit).toFixed(digits)} ${name}`;
}

/** The labels of ticks that are `step` ms apart, each with the unit. */
export function ticks(times: readonly number[], step: number, span: number): string[] {
  const [unit, name] = clock(span, Math.max(0, ...times));
  const digits = digitsFor(step / unit);
  return times.map((time) => `${(time / unit).toFixed(digits)} ${name}`);
}

/** The labels of ticks in round trips. */
export function roundTripTicks(places: readonly number[], step: number): string[] {
  return places.map((place) => `${place.toFixed(place === 0 ? 0 : digitsFor(step))} RT`);
}

export function roundTrips(count: number): string {
  return `${Math.abs(count) >= 1000 ? count.toFixed(0) : short(count)} RT`;
}

export function percent(share: number): string {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(share * 100).toFixed(share >= 0.0995 ? 0 : 1)} %`;
}

export function count(value: number): string {
  return value.toLocaleString("en");
}

/** An identifier as words: `congestion_avoidance` becomes "congestion avoidance". */
export function words(identifier: string): string {
  return identifier.replaceAll("_", " ");
}

/** A name with its connection ID shortened: the names of traces of both endpoints differ only after it. */
export function shortName(name: string): string {
  return name.replace(/[0-9a-f]{16,}/gi, (id) => `${id.slice(0, 8)}…`);
}
