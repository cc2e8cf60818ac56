// The memories of a core at a moment: what lies where, what is on its way, what computes.
import { Kind, Room, before, bytes } from "./data";
import { State } from "./state";
import { h, kindOf, panel, s } from "./dom";

type Box = [number, number][]; // [begin, end) by dimension
const kFar = new Set(["hbm", "gmem", "any"]), kInside = new Set(["registers", "tensor core"]);
const kNames: Record<string, string> = { hbm: "HBM", gmem: "GMEM", vmem: "VMEM", smem: "SMEM", tmem: "TMEM", registers: "registers", "tensor core": "tensor core" };

export function spaceName(space: string): string { return kNames[space] ?? space; }

function parse(box: string): Box {
  return box.slice(1, -1).split(",").map((p) => {
    const [a, b] = p.trim().split(":").map(Number);
    return [a, b ?? a + 1] as [number, number];
  });
}
// An array as rows and columns: the last dimension across, the others down.
function flat(box: Box, dims: number[]): { x: number; y: number; w: number; h: number } | null {
  if (!dims.length || box.length !== dims.length || box.some(([a, b]) => Number.isNaN(a) || Number.isNaN(b))) return null;
  const [c0, c1] = box[box.length - 1], cols = dims[dims.length - 1];
  let y0 = 0, y1 = 0, rows = 1;
  for (let d = 0; d < dims.length - 1; ++d) {
    y0 = y0 * dims[d] + box[d][0];
    y1 = y1 * dims[d] + box[d][1] - 1;
    rows *= dims[d];
  }
  return { x: c0 / cols, y: y0 / rows, w: (c1 - c0) / cols, h: (y1 - y0 + 1) / rows };
}
function cut(text: string, most: number): string { return text.length > most ? text.slice(0, most - 1) + "…" : text; }

interface Spot { x: number; y: number; w: number; h: number }

export class MemoryView {
  readonly element: HTMLElement;
  private svg = s("svg", { role: "img", "aria-label": "Memories and what moves between them" });
  private words = h("p", { class: "sr", "aria-live": "polite" });
  private boxes = new Map<number, Box>();
  private core = h("select", { "aria-label": "Core" });
  private width = 0;

  constructor(private state: State) {
    this.element = panel("memory", "Memories at this moment", h("div", { class: "tools" }, this.core), h("div", { class: "draw" }, this.svg as unknown as Node), this.words);
    this.core.addEventListener("change", () => state.setCore(Number(this.core.value)));
    state.listen((what) => {
      if (what === "launch") this.fresh();
      if (what !== "view") this.draw();
    });
    new ResizeObserver(() => { if (this.element.clientWidth !== this.width) this.draw(); }).observe(this.element);
    this.fresh();
  }

  private fresh() {
    this.boxes.clear();
    const l = this.state.launch;
    this.core.replaceChildren(...l.cores.map((c) => h("option", { value: c }, c < 0 ? "kernel" : l.path(c))));
    this.core.value = String(this.state.core);
    (this.core.parentElement as HTMLElement).hidden = l.cores.length < 2;
  }
  private box(n: number): Box | null {
    if (n < 0) return null;
    const known = this.boxes.get(n);
    if (known) return known;
    const text = this.state.launch.raw.names[n];
    if (!text.startsWith("[")) return null;
    const made = parse(text);
    this.boxes.set(n, made);
    return made;
  }

  draw() {
    const { launch, time, core } = this.state, rooms = launch.raw.rooms, m = launch.raw.moves, names = launch.raw.names;
    this.width = this.element.clientWidth;
    const w = Math.max(this.width - 24, 320), gap = w < 560 ? 26 : 60, col = (w - 2 * gap) / 3;
    const device = rooms.find((r) => r.core === core)?.device ?? 0;
    const own = rooms.map((_, i) => i).filter((i) => rooms[i].core === core || (rooms[i].core < 0 && (rooms[i].device === device)));
    const under = launch.movesAt(time).filter((i) => rooms[m.from[i]].core === core || rooms[m.to[i]].core === core || (rooms[m.from[i]].core < 0 && rooms[m.to[i]].core < 0));
    for (const i of under) for (const r of [m.from[i], m.to[i]]) if (!own.includes(r)) own.push(r);
    own.sort((a, b) => rooms[a].device - rooms[b].device);
    const out: Node[] = [], spots = new Map<number, Spot>();
    const text = (x: number, y: number, words: string, cls = "", anchor = "start") => out.push(s("text", { x, y, class: cls, "text-anchor": anchor }, words));
    const columns: [string, number[]][] = [
      [launch.raw.family === "gpu" ? "GMEM" : "HBM", own.filter((i) => kFar.has(rooms[i].space))],
      ["", own.filter((i) => !kFar.has(rooms[i].space) && !kInside.has(rooms[i].space))],
      ["computes", own.filter((i) => kInside.has(rooms[i].space))]];
    const near = [...new Set(columns[1][1].map((i) => spaceName(rooms[i].space)))];
    columns[1][0] = near.join(", ") || (launch.raw.family === "gpu" ? "SMEM" : "VMEM");
    let most = 60;

    // Far: arrays as rectangles, with what is read and written now.
    let y = 26;
    text(0, 12, columns[0][0], "head");
    for (const i of columns[0][1]) {
      const r = rooms[i], tall = this.shape(r, col);
      const spot = { x: 0, y: y + 14, w: tall.w, h: tall.h };
      text(0, y + 8, cut(r.core < 0 && r.device !== device ? `${r.name} (device ${r.device})` : `${r.name} ${r.dims.length ? "[" + r.dims.join(", ") + "]" : bytes(r.bytes)}`, Math.floor(col / 6.2)), "label");
      out.push(s("rect", { x: spot.x, y: spot.y, width: spot.w, height: spot.h, class: "room" }));
      this.seen(i, spot, out);
      spots.set(i * 64, spot);
      y += 14 + tall.h + 14;
    }
    most = Math.max(most, y);

    // Near: slots with what lies in them.
    y = 26;
    const x1 = col + gap;
    text(x1, 12, columns[1][0], "head");
    for (const i of columns[1][1]) {
      const r = rooms[i], slots = Math.min(Math.max(r.slots, 1), 8), across = Math.min(slots, col < 130 ? 2 : slots <= 4 ? slots : 4), cell = (col - 4 * (across - 1)) / across, tall = 30;
      text(x1, y + 8, cut(`${r.name || spaceName(r.space)}  ${bytes(r.bytes)}`, Math.floor(col / 6.2)), "label");
      for (let k = 0; k < slots; ++k) {
        const spot = { x: x1 + (k % across) * (cell + 4), y: y + 13 + Math.floor(k / across) * (tall + 4), w: cell, h: tall };
        spots.set(i * 64 + k, spot);
        this.slot(i, k, spot, out);
      }
      y += 13 + Math.ceil(slots / across) * (tall + 4) + 10;
    }
    most = Math.max(most, y);

    // What computes, and what threads do.
    y = 26;
    const x2 = 2 * (col + gap), said: string[] = [];
    text(x2, 12, "units and threads", "head");
    for (const lane of launch.lanes) {
      const t = launch.raw.tracks[lane.track];
      if (t.parent !== core || (t.kind !== Kind.Unit && t.kind !== Kind.Thread)) continue;
      const k = launch.sliceAt(lane, time), kind = k < 0 ? "idle" : kindOf(names[lane.name[k]], t.kind === Kind.Unit);
      if (y > 420) continue;
      const line = k >= 0 && lane.line[k] >= 0 ? launch.raw.lines[lane.line[k]] : null;
      out.push(s("rect", { x: x2, y, width: col, height: 31, rx: 3, class: `unit ${kind}` + (line && lane.line[k] === this.state.line ? " marked" : "") }));
      text(x2 + 6, y + 12, cut(`${t.name.replace(/^cluster .*, (?=warpgroup)/, "")}${k < 0 ? "" : ": " + names[lane.name[k]]}`, Math.floor(col / 6.2)), "label");
      text(x2 + 6, y + 25, k < 0 ? "idle" : cut(line ? `${line.line}: ${line.text.trim()}` : "", Math.floor(col / 6.4)), "small");
      if (k >= 0 && t.kind === Kind.Thread) said.push(`${t.name}: ${names[lane.name[k]]}`);
      y += 36;
    }
    for (const i of columns[2][1]) {
      text(x2, y + 8, cut(`${rooms[i].name}${rooms[i].space === "registers" && rooms[i].bytes ? `, registers ${bytes(rooms[i].bytes)}` : ""}`, Math.floor(col / 6.2)), "label");
      const spot = { x: x2, y: y + 12, w: col, h: 18 };
      out.push(s("rect", { x: spot.x, y: spot.y, width: spot.w, height: spot.h, class: "room" }));
      spots.set(i * 64, spot);
      y += 38;
    }
    most = Math.max(most, y);

    for (const i of under) this.flight(i, spots, out);
    this.svg.setAttribute("viewBox", `0 0 ${w} ${most}`);
    this.svg.setAttribute("width", String(w));
    this.svg.setAttribute("height", String(most));
    this.svg.replaceChildren(...out);
    this.words.textContent = `${launch.time(time)}. ${under.length} movements under way. ${said.slice(0, 4).join(". ")}`;
  }

  private shape(r: Room, col: number): { w: number; h: number } {
    const cols = r.dims.length ? r.dims[r.dims.length - 1] : 1, rows = r.dims.slice(0, -1).reduce((a, b) => a * b, 1);
    const ratio = Math.min(Math.max(rows / Math.max(cols, 1), 0.12), 1);
    const w = ratio < 0.6 ? Math.min(col, 150) : Math.min(col, 96);
    return { w, h: Math.max(w * ratio, 18) };
  }

  // Of an array: what is under way to it and from it.
  private seen(room: number, at: Spot, out: Node[]) {
    const { launch, time } = this.state, m = launch.raw.moves, r = launch.raw.rooms[room];
    for (const i of launch.movesAt(time)) {
      const from = m.from[i] === room, to = m.to[i] === room;
      if (!from && !to) continue;
      const box = this.box(from ? m.from_box[i] : m.to_box[i]), f = box && flat(box, r.dims);
      if (!f) continue;
      out.push(s("rect", { x: at.x + f.x * at.w, y: at.y + f.y * at.h, width: Math.max(f.w * at.w, 1.5), height: Math.max(f.h * at.h, 1.5), class: from ? "tile in" : "tile out" }));
    }
  }

  // Of a slot: what came last, and what is coming.
  private slot(room: number, slot: number, at: Spot, out: Node[]) {
    const { launch, time } = this.state, m = launch.raw.moves, names = launch.raw.names;
    const list = launch.arrivals.get(room * 64 + slot) ?? [];
    let lo = 0, hi = list.length;
    while (lo < hi) { const mid = (lo + hi) >> 1; if (launch.moveBegin[list[mid]] <= time) lo = mid + 1; else hi = mid; }
    const last = lo - 1, coming = last >= 0 && launch.moveEnd[list[last]] > time;
    const holds = coming ? last - 1 : last;
    out.push(s("rect", { x: at.x, y: at.y, width: at.w, height: at.h, class: holds >= 0 ? "slot full" : "slot" }));
    const label = (i: number) => {
      const move = list[i], from = launch.raw.rooms[m.from[move]];
      const box = m.from_box[move] >= 0 ? names[m.from_box[move]] : "";
      return box && from.name === launch.raw.rooms[room].name ? box : from.name + box;
    };
    const letters = Math.floor(at.w / 5.6), leaving = launch.movesAt(time).find((i) => m.from[i] === room && m.from_slot[i] === slot && kFar.has(launch.raw.rooms[m.to[i]].space));
    if (leaving !== undefined) {
      out.push(s("rect", { x: at.x, y: at.y, width: at.w, height: at.h, class: "slot full" }));
      out.push(s("text", { x: at.x + 4, y: at.y + 18, class: "small inside" }, cut(`→ ${m.to_box[leaving] >= 0 ? names[m.to_box[leaving]] : launch.raw.rooms[m.to[leaving]].name}`, letters)));
      return;
    }
    if (coming) {
      const i = list[last], part = (time - launch.moveBegin[i]) / Math.max(launch.moveEnd[i] - launch.moveBegin[i], 1e-9);
      out.push(s("rect", { x: at.x, y: at.y, width: at.w * part, height: at.h, class: "tile in" }));
      out.push(s("text", { x: at.x + 4, y: at.y + 25, class: "small inside" }, cut(`← ${label(last)}`, letters)));
    }
    if (holds >= 0) out.push(s("text", { x: at.x + 4, y: at.y + (coming ? 12 : 18), class: "small inside" }, cut(label(holds), letters)));
  }

  // A movement: a line, and the tile on it.
  private flight(i: number, spots: Map<number, Spot>, out: Node[]) {
    const { launch, time, line } = this.state, m = launch.raw.moves;
    const spot = (room: number, slot: number) => spots.get(room * 64 + Math.min(slot, 7)) ?? spots.get(room * 64);
    const a = spot(m.from[i], m.from_slot[i]), b = spot(m.to[i], m.to_slot[i]);
    if (!a || !b) return;
    const left = a.x < b.x, x1 = left ? a.x + a.w : a.x, x2 = left ? b.x : b.x + b.w, y1 = a.y + a.h / 2, y2 = b.y + b.h / 2;
    const part = (time - launch.moveBegin[i]) / Math.max(launch.moveEnd[i] - launch.moveBegin[i], 1e-9);
    const kind = left ? "in" : "out", marked = m.line[i] >= 0 && m.line[i] === line ? " marked" : "";
    out.push(s("line", { x1, y1, x2, y2, class: `way ${kind}${marked}` }));
    out.push(s("rect", { x: x1 + (x2 - x1) * part - 5, y: y1 + (y2 - y1) * part - 5, width: 10, height: 10, class: `parcel ${kind}${marked}` },
      s("title", {}, `${launch.raw.names[m.name[i]]}: ${launch.raw.rooms[m.from[i]].name} to ${launch.raw.rooms[m.to[i]].name}, ${bytes(m.bytes[i])}`) as unknown as Node));
  }
}

// Bytes of each memory over time, with what it has; the whole launch, with the moment.
export class OccupancyView {
  readonly element: HTMLElement;
  private list = h("div", {});
  private marks: SVGElement[] = [];
  private values: { e: HTMLElement; counter: number; text: (v: number) => string }[] = [];

  constructor(private state: State) {
    this.element = panel("occupancy", "What memories hold", this.list);
    state.listen((what) => { if (what === "launch" || what === "core") this.build(); if (what === "time") this.move(); });
    this.build();
  }
  private build() {
    const l = this.state.launch, out: Node[] = [];
    this.marks = [];
    this.values = [];
    l.counters.forEach((c, n) => {
      const t = l.raw.tracks[c.track];
      if (t.parent !== this.state.core || !/bytes/.test(t.name)) return;
      const space = t.name.split(" ")[0].toLowerCase(), has = l.raw.memories.find((m) => m.space === space)?.capacity ?? -1;
      const top = Math.max(c.most, 1), W = 300, H = 44;
      const step = Math.max(1, Math.floor(c.time.length / 600));
      let d = `M0 ${H}`, x = 0;
      for (let i = 0; i < c.time.length; i += step) {
        let v = 0;
        for (let k = i; k < Math.min(i + step, c.time.length); ++k) v = Math.max(v, c.value[k]);
        x = c.time[i] / l.end * W;
        d += `H${x.toFixed(2)}V${(H - v / top * (H - 4)).toFixed(2)}`;
      }
      d += `H${W}V${H}Z`;
      const mark = s("line", { y1: 0, y2: H, class: "now" });
      this.marks.push(mark);
      const value = h("span", { class: "value" });
      this.values.push({ e: value, counter: n, text: (v) => has > 0 ? `${bytes(v)} of ${bytes(has)} (${(100 * v / has).toFixed(v / has < 0.1 ? 1 : 0)} %)` : bytes(v) });
      const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", class: "spark", role: "img", "aria-label": `${t.name}, at most ${bytes(c.most)}` }, s("path", { d }) as unknown as Node, mark as unknown as Node);
      svg.addEventListener("click", (e) => { const r = svg.getBoundingClientRect(); this.state.setTime(((e as MouseEvent).clientX - r.left) / r.width * l.end); });
      out.push(h("div", { class: "gauge" }, h("span", {}, t.name), value, svg as unknown as Node));
    });
    for (const m of l.raw.memories) {
      if (!m.buffers.length) continue;
      out.push(h("details", {}, h("summary", {}, `${spaceName(m.space)}: what the kernel keeps there${m.capacity > 0 ? ` (${bytes(m.capacity)} there are)` : ""}`),
        h("table", {}, ...m.buffers.map((b) => h("tr", {}, h("td", {}, b.name), h("td", {}, b.type), h("td", { class: "n" }, b.copies > 1 ? `${b.copies} × ${bytes(b.bytes)}` : bytes(b.bytes)), h("td", {}, b.role))))));
    }
    if (!out.length) out.push(h("p", { class: "dim" }, "This kernel keeps nothing in a memory of its core."));
    this.list.replaceChildren(...out);
    this.move();
  }
  private move() {
    const l = this.state.launch, x = this.state.time / l.end * 300;
    for (const m of this.marks) { m.setAttribute("x1", String(x)); m.setAttribute("x2", String(x)); }
    for (const v of this.values) v.e.textContent = v.text(l.counterAt(l.counters[v.counter], this.state.time));
  }
}

// Semaphores and phases of barriers at the moment.
export class SyncView {
  readonly element: HTMLElement;
  private body = h("div", {});
  private cells: { e: HTMLElement; counter: number; last: number; row: HTMLElement }[] = [];
  constructor(private state: State) {
    this.element = panel("sync", "Semaphores and barriers", this.body);
    state.listen((what) => { if (what === "launch" || what === "core") this.build(); if (what === "time") this.move(); });
    this.build();
  }
  private build() {
    const l = this.state.launch;
    this.cells = [];
    l.counters.forEach((_, n) => {
      const t = l.raw.tracks[l.counters[n].track];
      if (t.parent !== this.state.core || !/^(semaphore|phase|the pipeline)/.test(t.name) || this.cells.length >= 64) return;
      const e = h("td", { class: "n" });
      this.cells.push({ e, counter: n, last: NaN, row: h("tr", {}, h("td", {}, t.name), e) });
    });
    this.element.hidden = !this.cells.length;
    this.body.replaceChildren(h("table", {}, ...this.cells.map((c) => c.row)));
    this.move();
  }
  private move() {
    const l = this.state.launch;
    for (const c of this.cells) {
      const counter = l.counters[c.counter], v = l.counterAt(counter, this.state.time);
      if (v === c.last) continue;
      c.last = v;
      c.e.textContent = !/^phase/.test(l.raw.tracks[counter.track].name) && counter.most > 4096 ? bytes(v) : String(v);
    }
  }
}

// The grid: which points are done, which run, which come.
export class GridView {
  readonly element: HTMLElement;
  private canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "Grid" });
  private words = h("p", { class: "dim" });
  private sizes: number[] = [];
  private place: Int32Array = new Int32Array(0);
  constructor(private state: State) {
    this.element = panel("grid", "Grid", this.words, this.canvas);
    this.canvas.addEventListener("pointerdown", (e) => this.pressed(e));
    state.listen((what) => { if (what === "launch") this.fresh(); if (what === "time" || what === "launch") this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.fresh();
  }
  private fresh() {
    const g = this.state.launch.raw.grid, names = this.state.launch.raw.names;
    this.sizes = g.axes.map((a) => a.size).filter((n) => n > 0);
    const points = g.name.map((n) => names[n].slice(1, -1).split(",").map(Number));
    if (!this.sizes.length || points.some((p) => p.length !== this.sizes.length && p.length !== 1)) {
      const width = points.length ? points[0].length : 0;
      this.sizes = Array.from({ length: width }, (_, d) => Math.max(...points.map((p) => p[d] ?? 0)) + 1);
    }
    this.place = Int32Array.from(points, (p) => p.length === this.sizes.length ? p.reduce((at, v, d) => at * this.sizes[d] + v, 0) : p[0]);
    this.element.hidden = !g.name.length;
  }
  private columns(): number { return this.sizes.length > 1 ? this.sizes[this.sizes.length - 1] : Math.min(this.sizes[0] ?? 1, 32); }
  private draw() {
    const { launch, time } = this.state, w = Math.min(this.element.clientWidth - 24, 420);
    if (w <= 0 || !this.place.length) return;
    const total = this.sizes.reduce((a, b) => a * b, 1), cols = this.columns(), rows = Math.ceil(total / cols);
    const cell = Math.max(Math.min(w / cols, 24, 240 / rows), 1), ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(cols * cell * ratio);
    this.canvas.height = Math.round(rows * cell * ratio);
    this.canvas.style.width = `${cols * cell}px`;
    this.canvas.style.height = `${rows * cell}px`;
    const c = this.canvas.getContext("2d")!, css = getComputedStyle(document.documentElement), of = (n: string) => css.getPropertyValue(n).trim();
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    const gap = cell > 5 ? 1 : 0, none = of("--rule"), done = of("--done"), now = of("--compute");
    c.fillStyle = none;
    for (let i = 0; i < total && total <= 40000; ++i) c.fillRect((i % cols) * cell, Math.floor(i / cols) * cell, cell - gap, cell - gap);
    const running: string[] = [];
    let finished = 0;
    for (let i = 0; i < this.place.length && launch.pointBegin[i] <= time; ++i) {
      const is = launch.pointEnd[i] > time, p = this.place[i], x = (p % cols) * cell, y = Math.floor(p / cols) * cell;
      c.fillStyle = is ? now : done;
      c.fillRect(x, y, cell - gap, cell - gap);
      if (is && cell > 6) { c.fillStyle = "#fff"; c.fillRect(x + cell / 2 - 1.5, y + cell / 2 - 1.5, 3, 3); }
      if (is) running.push(launch.raw.names[launch.raw.grid.name[i]]); else ++finished;
    }
    const what = launch.raw.grid.axes.length ? "points" : "programs, of the cores that are shown";
    this.words.textContent = `${this.sizes.join(" × ")} ${what}${launch.raw.grid.axes.some((a) => a.name) ? ` (${launch.raw.grid.axes.map((a) => a.name).join(", ")})` : ""}: ${finished} done, ${running.length} under way${running.length && running.length < 5 ? `: ${running.join(" ")}` : ""}`;
  }
  private pressed(e: PointerEvent) {
    const r = this.canvas.getBoundingClientRect(), cols = this.columns(), total = this.sizes.reduce((a, b) => a * b, 1), rows = Math.ceil(total / cols);
    const at = Math.floor((e.clientY - r.top) / r.height * rows) * cols + Math.floor((e.clientX - r.left) / r.width * cols);
    const i = this.place.indexOf(at);
    if (i >= 0) this.state.setTime(this.state.launch.pointBegin[i]);
  }
}
