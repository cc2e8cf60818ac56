// The memories of a core at a moment: what lies where, what is on its way, what computes.
import { Kind, Room, bytes, kFar } from "./data";
import { State } from "./state";
import { Drawing, h, kindOf, panel, s } from "./dom";

type Box = [number, number][]; // [begin, end) by dimension
const kInside = new Set(["registers", "tensor core"]);
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

const kTall = 430;
interface Spot { x: number; y: number; w: number; h: number }

export class MemoryView {
  readonly element: HTMLElement;
  private svg = s("svg", { role: "img", "aria-label": "Memories and what moves between them" });
  private drawing = new Drawing(this.svg);
  private words = h("p", { class: "sr", "aria-live": "polite" });
  private boxes = new Map<number, Box>();
  private core = h("select", { "aria-label": "Core" });
  private moment = h("span", { class: "moment" });
  private width = 0;
  private under: number[] = []; // movements under way at the moment that is drawn

  constructor(private state: State) {
    this.element = panel("memory", "Memories at this moment", h("div", { class: "tools" }, this.core, this.moment, this.legend()), h("div", { class: "draw" }, this.svg as unknown as Node), this.words);
    this.core.addEventListener("change", () => state.setCore(Number(this.core.value)));
    state.listen((what) => {
      if (what === "launch") this.fresh();
      if (what === "core") this.core.value = String(state.core);
      if (what !== "view") this.draw();
    });
    new ResizeObserver(() => { if (this.element.clientWidth !== this.width) this.resized(); }).observe(this.element);
    this.fresh();
  }

  // The width is asked for here alone: asking lays out the page.
  resized() { this.width = this.element.clientWidth; this.draw(); }
  private fresh() {
    this.boxes.clear();
    const l = this.state.launch;
    this.core.replaceChildren(...l.cores.map((c) => h("option", { value: c }, c < 0 ? "kernel" : l.path(c))));
    this.core.value = String(this.state.core);
    this.core.hidden = l.cores.length < 2;
  }
  private legend(): HTMLElement {
    const names: [string, string][] = [["in", "is read, comes nearer"], ["out", "is written, leaves"]];
    return h("span", { class: "legend" }, ...names.map(([k, t]) => h("span", {}, h("i", { class: `swatch ${k} ${k === "out" ? "turned" : ""}` }), t)));
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
  private text(x: number, y: number, words: string, cls: string, title = "") { this.drawing.add("text", { x, y, class: cls }, words, title); }
  private rect(x: number, y: number, width: number, height: number, cls: string) { this.drawing.add("rect", { x, y, width, height, class: cls }); }
  private labelled(x: number, y: number, words: string, letters: number) { this.text(x, y, cut(words, letters), "label", words.length > letters ? words : ""); }

  draw() {
    const { launch, time, core } = this.state, rooms = launch.raw.rooms, m = launch.raw.moves;
    this.under = launch.movesAt(time);
    const w = Math.max(this.width - 24, 320), gap = w < 560 ? 26 : 60, col = (w - 2 * gap) / 3, letters = Math.floor(col / 6.2);
    const device = rooms.find((r) => r.core === core)?.device ?? launch.deviceOf(core);
    const own = rooms.map((_, i) => i).filter((i) => rooms[i].core === core || (rooms[i].core < 0 && rooms[i].device === device));
    const under = this.under.filter((i) => rooms[m.from[i]].core === core || rooms[m.to[i]].core === core || (rooms[m.from[i]].core < 0 && rooms[m.to[i]].core < 0));
    for (const i of under) for (const r of [m.from[i], m.to[i]]) if (!own.includes(r)) own.push(r);
    own.sort((a, b) => rooms[a].device - rooms[b].device);
    const spots = new Map<number, Spot>(), far = own.filter((i) => kFar.has(rooms[i].space)), near = own.filter((i) => !kFar.has(rooms[i].space) && !kInside.has(rooms[i].space));
    const gpu = launch.raw.family === "gpu", names = [...new Set(near.map((i) => spaceName(rooms[i].space)))];
    this.drawing.begin();

    // Far: arrays as rectangles, with what is read and written now; many of them smaller.
    let y = 26;
    this.text(0, 12, gpu ? "GMEM" : "HBM", "head");
    const talls = far.map((i) => this.shape(rooms[i], col)), sum = talls.reduce((a, b) => a + b.h, 0), part = Math.min(1, Math.max(kTall - 28 * far.length, 18 * far.length) / Math.max(sum, 1));
    far.forEach((i, n) => {
      const r = rooms[i], tall = Math.max(talls[n].h * part, Math.min(talls[n].h, 18));
      const spot = { x: 0, y: y + 14, w: talls[n].w, h: tall };
      this.labelled(0, y + 8, r.core < 0 && r.device !== device ? `${r.name} (device ${r.device})` : `${r.name} ${r.dims.length ? "[" + r.dims.join(", ") + "]" : bytes(r.bytes)}`, letters);
      this.rect(spot.x, spot.y, spot.w, spot.h, "room");
      this.seen(i, spot);
      spots.set(i * 64, spot);
      y += 14 + tall + 14;
    });
    let most = Math.max(60, y);

    // Near: slots with what lies in them.
    y = 26;
    const x1 = col + gap;
    this.text(x1, 12, names.join(", ") || (gpu ? "SMEM" : "VMEM"), "head");
    if (!near.length) this.text(x1, y + 8, "holds nothing of this kernel", "small");
    for (const i of near) {
      const r = rooms[i], slots = Math.min(Math.max(r.slots, 1), 8), across = Math.min(slots, Math.max(1, Math.floor(col / 88))), cell = (col - 4 * (across - 1)) / across, tall = 30;
      this.labelled(x1, y + 8, `${r.name || spaceName(r.space)}  ${bytes(r.bytes)}`, letters);
      for (let k = 0; k < slots; ++k) {
        const spot = { x: x1 + (k % across) * (cell + 4), y: y + 13 + Math.floor(k / across) * (tall + 4), w: cell, h: tall };
        spots.set(i * 64 + k, spot);
        this.slot(i, k, spot);
      }
      y += 13 + Math.ceil(slots / across) * (tall + 4) + 10;
    }
    most = Math.max(most, y);

    const { bottom, said } = this.units(2 * (col + gap), col, own.filter((i) => kInside.has(rooms[i].space)), spots);
    most = Math.max(most, bottom);
    for (const i of under) this.flight(i, spots);
    this.drawing.end();
    this.svg.setAttribute("viewBox", `0 0 ${w} ${most}`);
    this.svg.setAttribute("width", String(w));
    this.svg.setAttribute("height", String(most));
    this.moment.textContent = launch.time(time) + (time > launch.movesUntil ? `: movements after ${launch.time(launch.movesUntil)} are left out of this page` : "");
    this.words.textContent = `${launch.time(time)}. ${under.length} movements under way. ${said.slice(0, 4).join(". ")}`;
  }

  // What computes, and what threads do.
  private units(x: number, col: number, inside: number[], spots: Map<number, Spot>): { bottom: number; said: string[] } {
    const { launch, time, core } = this.state, names = launch.raw.names, rooms = launch.raw.rooms, letters = Math.floor(col / 6.2), said: string[] = [];
    let y = 26, more = 0;
    this.text(x, 12, "units and threads", "head");
    for (const lane of launch.lanes) {
      const t = launch.raw.tracks[lane.track];
      if (t.parent !== core || (t.kind !== Kind.Unit && t.kind !== Kind.Thread)) continue;
      const k = launch.sliceAt(lane, time), kind = k < 0 ? "idle" : kindOf(names[lane.name[k]], t.kind === Kind.Unit);
      if (y > kTall) { ++more; continue; }
      const line = k >= 0 && lane.line[k] >= 0 ? launch.raw.lines[lane.line[k]] : null;
      this.drawing.add("rect", { x, y, width: col, height: 31, rx: 3, class: `unit ${kind}` + (line && lane.line[k] === this.state.line ? " marked" : "") });
      this.labelled(x + 6, y + 12, `${t.name.replace(/^cluster .*, (?=warpgroup)/, "")}${k < 0 ? "" : ": " + names[lane.name[k]]}`, letters);
      this.text(x + 6, y + 25, k < 0 ? "idle" : cut(line ? `${line.line}: ${line.text.trim()}` : "", Math.floor(col / 6.4)), "small");
      if (k >= 0 && t.kind === Kind.Thread) said.push(`${t.name}: ${names[lane.name[k]]}`);
      y += 36;
    }
    if (more) { this.text(x + 6, y + 10, `and ${more} more, in the time line`, "small"); y += 20; }
    for (const i of inside) {
      this.labelled(x, y + 8, `${rooms[i].name}${rooms[i].space === "registers" && rooms[i].bytes ? `, registers ${bytes(rooms[i].bytes)}` : ""}`, letters);
      const spot = { x, y: y + 12, w: col, h: 18 };
      this.rect(spot.x, spot.y, spot.w, spot.h, "room");
      spots.set(i * 64, spot);
      y += 38;
    }
    return { bottom: y, said };
  }

  private shape(r: Room, col: number): { w: number; h: number } {
    const cols = r.dims.length ? r.dims[r.dims.length - 1] : 1, rows = r.dims.slice(0, -1).reduce((a, b) => a * b, 1);
    const ratio = Math.min(Math.max(rows / Math.max(cols, 1), 0.12), 1);
    const w = ratio < 0.6 ? Math.min(col, 150) : Math.min(col, 96);
    return { w, h: Math.max(w * ratio, 18) };
  }

  // Of an array: what is under way to it and from it.
  private seen(room: number, at: Spot) {
    const { launch } = this.state, m = launch.raw.moves, r = launch.raw.rooms[room];
    for (const i of this.under) {
      const from = m.from[i] === room, to = m.to[i] === room;
      if (!from && !to) continue;
      const box = this.box(from ? m.from_box[i] : m.to_box[i]), f = box && flat(box, r.dims);
      if (f) this.rect(at.x + f.x * at.w, at.y + f.y * at.h, Math.max(f.w * at.w, 1.5), Math.max(f.h * at.h, 1.5), from ? "tile in" : "tile out");
    }
  }

  // Of a slot: what came last, and what is coming.
  private slot(room: number, slot: number, at: Spot) {
    const { launch, time } = this.state, m = launch.raw.moves, names = launch.raw.names, rooms = launch.raw.rooms;
    if (time > launch.movesUntil) {
      this.rect(at.x, at.y, at.w, at.h, "slot");
      return this.text(at.x + 4, at.y + 18, "?", "small inside");
    }
    const list = launch.arrivals.get(room * 64 + slot) ?? [];
    let lo = 0, hi = list.length;
    while (lo < hi) { const mid = (lo + hi) >> 1; if (launch.moveBegin[list[mid]] <= time) lo = mid + 1; else hi = mid; }
    const last = lo - 1, coming = last >= 0 && launch.moveEnd[list[last]] > time, holds = coming ? last - 1 : last;
    const letters = Math.floor(at.w / 5.6), leaving = this.under.find((i) => m.from[i] === room && m.from_slot[i] === slot && kFar.has(rooms[m.to[i]].space));
    this.rect(at.x, at.y, at.w, at.h, holds >= 0 || leaving !== undefined ? "slot full" : "slot");
    const write = (y: number, words: string) => this.text(at.x + 4, at.y + y, cut(words, letters), "small inside", words.length > letters ? words : "");
    const label = (i: number) => {
      const move = list[i], from = rooms[m.from[move]];
      const box = m.from_box[move] >= 0 ? names[m.from_box[move]] : "";
      if (box && from.name === rooms[room].name) return box;
      return box && from.name.length + box.length > letters ? box : from.name + box;
    };
    if (leaving !== undefined) return write(18, `→ ${m.to_box[leaving] >= 0 ? names[m.to_box[leaving]] : rooms[m.to[leaving]].name}`);
    if (coming) {
      const i = list[last], part = (time - launch.moveBegin[i]) / Math.max(launch.moveEnd[i] - launch.moveBegin[i], 1e-9);
      this.rect(at.x, at.y, at.w * part, at.h, "tile in");
      write(25, `← ${label(last)}`);
    }
    if (holds >= 0) write(coming ? 12 : 18, label(holds));
    else if (!list.length) write(18, "no copies");
  }

  // A movement: a line, and the tile on it. Between memories of one column it goes round them.
  private flight(i: number, spots: Map<number, Spot>) {
    const { launch, time, line } = this.state, m = launch.raw.moves, rooms = launch.raw.rooms;
    const spot = (room: number, slot: number) => spots.get(room * 64 + Math.min(slot, 7)) ?? spots.get(room * 64);
    const a = spot(m.from[i], m.from_slot[i]), b = spot(m.to[i], m.to_slot[i]);
    if (!a || !b) return;
    const inside = (r: Spot, room: number, box: number) => { const f = this.box(box), p = f && kFar.has(rooms[room].space) ? flat(f, rooms[room].dims) : null; return r.y + (p ? (p.y + p.h / 2) * r.h : r.h / 2); };
    const part = (time - launch.moveBegin[i]) / Math.max(launch.moveEnd[i] - launch.moveBegin[i], 1e-9);
    const beside = Math.abs(a.x - b.x) < 1, left = beside || a.x < b.x, y1 = inside(a, m.from[i], m.from_box[i]), y2 = inside(b, m.to[i], m.to_box[i]);
    const x1 = left ? a.x + a.w : a.x, x2 = beside ? b.x + b.w : left ? b.x : b.x + b.w, out = beside ? Math.min(24 + Math.abs(y2 - y1) / 5, 150) : 0;
    const kind = (beside ? rooms[m.from[i]].device === rooms[m.to[i]].device : left) ? "in" : "out", marked = m.line[i] >= 0 && m.line[i] === line ? " marked" : "";
    this.drawing.add("path", { d: beside ? `M${x1} ${y1}C${x1 + out} ${y1} ${x2 + out} ${y2} ${x2} ${y2}` : `M${x1} ${y1}L${x2} ${y2}`, class: `way ${kind}${marked}` });
    const q = 1 - part, x = x1 + (x2 - x1) * part + 3 * out * part * q, y = beside ? y1 * (q * q * q + 3 * q * q * part) + y2 * (part * part * part + 3 * part * part * q) : y1 + (y2 - y1) * part;
    const title = `${launch.raw.names[m.name[i]]}: ${rooms[m.from[i]].name} to ${rooms[m.to[i]].name}, ${bytes(m.bytes[i])}`;
    if (kind === "in") this.drawing.add("rect", { x: x - 5, y: y - 5, width: 10, height: 10, class: `parcel in${marked}` }, "", title);
    else this.drawing.add("path", { d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z`, class: `parcel out${marked}` }, "", title);
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
      c.e.textContent = !/^phase/.test(l.raw.tracks[counter.track].name) && counter.most >= 4096 ? bytes(v) : String(v);
    }
  }
}
