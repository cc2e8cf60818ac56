// The data of a page, as trace/src/report.cc writes it, made ready to be looked up by time.

export interface Line { file: string; line: number; text: string; function: string; scope: string; seconds: number; busy: number }
export interface Track { name: string; parent: number; kind: number }
export interface Room { name: string; space: string; core: number; device: number; bytes: number; slots: number; dims: number[] }
export interface Finding { code: string; severity: string; message: string; line: number; numbers: string[]; hint: string }
export interface Advice { text: string; seconds?: number | null; site?: { file: string; line: number } }
export interface Prediction {
  seconds: number; bound: string; next: string; flops: number; bytes_read: number; bytes_written: number; bytes_cached: number;
  peak_flops: number; peak_bandwidth: number; peak_seconds: number; programs: number; programs_run: number; resident: number; waves: number;
  critical: { name: string; seconds: number }[]; bounds: { name: string; seconds: number; busy: number }[];
  waits: { site: { file: string; line: number; text: string }; what: string; seconds: number; longest: number; count: number }[];
  figures: { name: string; value: number; unit: string; status: string; source: string; change: number | null }[];
  advice?: Advice[]; notes: string[];
}
interface RawLane { track: number; begin: number[]; length: number[]; name: number[]; line: number[]; point?: number[]; folded?: number[] }
interface RawMoves { begin: number[]; length: number[]; name: number[]; line: number[]; from: number[]; to: number[]; from_box: number[]; to_box: number[]; from_slot: number[]; to_slot: number[]; bytes: number[] }
export interface RawLaunch {
  kernel: string; chip: string; machine: string; family: string; unit: string; tick: number; end: number; prediction: Prediction | null;
  left_out: string; moves_dropped: number; points_dropped: number; lines: Line[]; names: string[]; tracks: Track[]; lanes: RawLane[]; arrows: number[];
  counters: { track: number; time: number[]; value: number[] }[]; rooms: Room[]; moves: RawMoves;
  grid: { axes: { size: number; name: string; semantics: string }[]; begin: number[]; length: number[]; core: number[]; name: number[] };
  memories: { space: string; bytes: number; capacity: number; buffers: { name: string; type: string; bytes: number; copies: number; role: string }[] }[];
  operands: { name: string; type: string; output: boolean; blocked: boolean }[]; findings: Finding[];
  traffic: { name: string; space: string; bytes_read: number; bytes_written: number; bytes_fetched: number; bytes_written_back: number }[];
}

export const enum Kind { Group, Thread, Unit, Flight, Counter }

export const kFar = new Set(["hbm", "gmem", "any"]);

// away: what goes to the memory of the device, or to another one.
export interface Lane { track: number; begin: Float64Array; end: Float64Array; name: number[]; line: number[]; point?: number[]; folded?: number[]; away?: boolean[] }
export interface Counter { track: number; time: Float64Array; value: number[]; most: number }

// From differences to times.
function sums(d: number[]): Float64Array {
  const r = new Float64Array(d.length);
  let at = 0;
  for (let i = 0; i < d.length; ++i) r[i] = at += d[i];
  return r;
}
function ends(begin: Float64Array, length: number[]): Float64Array {
  return Float64Array.from(begin, (b, i) => b + length[i]);
}

// The last index whose value is not above x; -1: none.
export function before(all: ArrayLike<number>, x: number): number {
  let lo = 0, hi = all.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (all[mid] <= x) lo = mid + 1; else hi = mid;
  }
  return lo - 1;
}

export class Launch {
  lanes: Lane[];
  counters: Counter[];
  moveBegin: Float64Array;
  moveEnd: Float64Array;
  longestMove = 0;
  arrivals = new Map<number, number[]>(); // by room and slot: moves in the order of their beginning
  pointBegin: Float64Array;
  pointEnd: Float64Array;
  cores: number[] = []; // tracks that have threads below them
  events: Float64Array; // moments at which something begins or ends
  movesUntil = Infinity; // later ones were left out, of movements and of grid points
  pointsUntil = Infinity;
  lineTotal = 0;
  lineMost = 0;
  constructor(readonly raw: RawLaunch) {
    this.lanes = raw.lanes.map((l) => {
      const begin = sums(l.begin);
      return { ...l, begin, end: ends(begin, l.length) };
    });
    this.counters = raw.counters.map((c) => ({ track: c.track, time: sums(c.time), value: c.value, most: c.value.reduce((a, b) => Math.max(a, b), 0) }));
    const m = raw.moves;
    this.moveBegin = sums(m.begin);
    this.moveEnd = ends(this.moveBegin, m.length);
    for (let i = 0; i < m.to.length; ++i) {
      this.longestMove = Math.max(this.longestMove, m.length[i]);
      const key = m.to[i] * 64 + Math.min(m.to_slot[i], 63);
      const list = this.arrivals.get(key);
      if (list) list.push(i); else this.arrivals.set(key, [i]);
    }
    this.findAway();
    this.pointBegin = sums(raw.grid.begin);
    this.pointEnd = ends(this.pointBegin, raw.grid.length);
    if (raw.moves_dropped > 0) this.movesUntil = this.moveBegin[this.moveBegin.length - 1] ?? 0;
    if (raw.points_dropped > 0) this.pointsUntil = this.pointBegin[this.pointBegin.length - 1] ?? 0;
    const seen = new Set<number>();
    for (const l of this.lanes) if (raw.tracks[l.track].kind === Kind.Thread) seen.add(raw.tracks[l.track].parent);
    this.cores = [...seen].sort((a, b) => a - b);
    const some = this.lanes.filter((l) => raw.tracks[l.track].kind !== Kind.Unit), moments = new Float64Array(some.reduce((n, l) => n + 2 * l.begin.length, 0));
    let at = 0;
    for (const l of some) { moments.set(l.begin, at); moments.set(l.end, at + l.begin.length); at += 2 * l.begin.length; }
    moments.sort();
    this.events = moments.filter((t, i) => !i || t !== moments[i - 1]);
    for (const l of raw.lines) { this.lineTotal += l.seconds; this.lineMost = Math.max(this.lineMost, l.seconds); }
    if (raw.prediction) this.lineTotal = raw.prediction.seconds;
  }
  // Slices of operations in flight have the moments and the name of their movement.
  private findAway() {
    const m = this.raw.moves, rooms = this.raw.rooms, away = new Set<string>();
    for (let i = 0; i < m.to.length; ++i) {
      const a = rooms[m.from[i]], b = rooms[m.to[i]];
      if (kFar.has(b.space) && (!kFar.has(a.space) || a.device !== b.device)) away.add(`${this.moveBegin[i]} ${this.moveEnd[i]} ${m.name[i]}`);
    }
    for (const l of this.lanes)
      if (this.raw.tracks[l.track].kind === Kind.Flight) l.away = Array.from(l.begin, (b, i) => away.has(`${b} ${l.end[i]} ${l.name[i]}`));
  }
  get end(): number { return Math.max(this.raw.end, 1); }
  // Moves that are under way.
  movesAt(t: number): number[] {
    const r: number[] = [];
    const last = before(this.moveBegin, t);
    for (let i = last; i >= 0 && this.moveBegin[i] >= t - this.longestMove; --i) if (this.moveEnd[i] > t) r.push(i);
    return r;
  }
  // The slice of a lane at a moment; -1: none.
  sliceAt(lane: Lane, t: number): number {
    const i = before(lane.begin, t);
    return i >= 0 && lane.end[i] > t ? i : -1;
  }
  counterAt(c: Counter, t: number): number {
    const i = before(c.time, t);
    return i < 0 ? 0 : c.value[i];
  }
  // Of a core's track: the number in the name of the device above it.
  deviceOf(core: number): number {
    for (let t = core; t >= 0; t = this.raw.tracks[t].parent) {
      const n = /^device (\d+)$/.exec(this.raw.tracks[t].name);
      if (n) return Number(n[1]);
    }
    return 0;
  }
  path(track: number): string {
    const t = this.raw.tracks[track];
    if (t.parent < 0) return t.name;
    const above = this.path(t.parent);
    return `${above} / ${t.name.replace(` of ${above}`, "")}`;
  }
  time(t: number, digits = 4): string { return this.raw.unit === "steps" ? `step ${Math.round(t)}` : seconds(t * this.raw.tick, digits); }
}

export function seconds(s: number, digits = 4): string {
  const a = Math.abs(s);
  const cut = (x: number) => String(Number(x.toPrecision(digits)));
  if (a === 0) return "0";
  if (a < 1e-6) return `${cut(s * 1e9)} ns`;
  if (a < 1e-3) return `${cut(s * 1e6)} µs`;
  if (a < 1) return `${cut(s * 1e3)} ms`;
  return `${cut(s)} s`;
}
export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  while (Math.abs(n) >= 1024 && u < 4) { n /= 1024; ++u; }
  return `${Number(n.toPrecision(4))} ${units[u]}`;
}
export function rate(n: number, unit: string): string {
  const prefix = ["", "k", "M", "G", "T", "P"];
  let u = 0;
  while (Math.abs(n) >= 1000 && u < 5) { n /= 1000; ++u; }
  return `${Number(n.toPrecision(3))} ${prefix[u]}${unit}`;
}
