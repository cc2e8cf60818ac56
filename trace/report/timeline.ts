// The time line: a canvas with a row for each lane of slices and each counter, drawn again where the view changes; what
// moves with the time lies on a canvas above it.
import { Kind, Lane, Counter, before, bytes } from "./data";
import { State } from "./state";
import { colours, h, kindOf, panel, stripesOf } from "./dom";

interface Row { label: string; depth: number; lane?: Lane; counter?: Counter; core?: number; y: number; height: number; title: string }
// "warpgroup 1" of "cluster (0), CTA x=0, warpgroup 1": whose it is says the row above.
function short(name: string): string { return /^cluster /.test(name) ? name.replace(/^cluster \(0\), /, "").replace(/^(CTA [^,]*, )?(?=warpgroup)/, "") : name; }

const kRow = 18, kCounter = 26, kGroup = 17;

export class TimelineView {
  readonly element: HTMLElement;
  private canvas = h("canvas", { tabindex: 0, role: "application", "aria-roledescription": "time line", "aria-describedby": "row",
    "aria-label": "Time line. Up and down: another row. Left and right: the event before and the next one. Plus and minus: zoom. Enter: the row's line, or its core." });
  private words = h("p", { class: "sr", id: "row", "aria-live": "polite" });
  private row = 0; // that keys are about
  private over = h("canvas", { class: "over", "aria-hidden": "true" });
  private moment = h("span", {});
  private cursor = h("div", { class: "cursor", "aria-hidden": "true" }, this.moment);
  private box = h("div", { class: "lanes" }, this.canvas, this.over, this.cursor);
  private tip = h("div", { class: "tip", hidden: true });
  private rows: Row[] = [];
  private height = 0;
  private width = 0;
  private labels = 170;
  private hovered: { row: Row; i: number } | null = null;
  private note = h("p", { class: "dim" });

  constructor(private state: State) {
    const button = (label: string, title: string, f: () => void) => h("button", { type: "button", title, "aria-label": title, click: f }, label);
    this.element = panel("timeline", "Time line",
      h("div", { class: "tools" }, button("+", "Zoom in", () => state.zoom(0.5)), button("−", "Zoom out", () => state.zoom(2)),
        button("all", "Show everything", () => state.setView(0, state.launch.end)), this.legend()),
      this.box, this.tip, this.words, this.note);
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.canvas.addEventListener("focus", () => { this.say(); this.drawOver(); });
    this.canvas.addEventListener("blur", () => this.drawOver());
    this.canvas.addEventListener("pointermove", (e) => this.pointed(e));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; this.hovered = null; this.drawOver(); });
    this.canvas.addEventListener("pointerdown", (e) => this.pressed(e));
    this.canvas.addEventListener("wheel", (e) => this.wheeled(e), { passive: false });
    state.listen((what) => {
      if (what === "launch" || what === "core") this.layout();
      if (what === "time") this.place(); else this.draw();
    });
    new ResizeObserver(() => { if (this.box.clientWidth !== this.width) this.resized(); }).observe(this.box);
    this.layout();
  }

  private legend(): HTMLElement {
    const names: [string, string][] = [["compute", "computes"], ["in", "brings data"], ["out", "takes data away"], ["sync", "tells others"], ["step", "other steps"], ["wait", "waits"]];
    return h("span", { class: "legend" }, ...names.map(([k, t]) => h("span", {}, h("i", { class: `swatch ${k}` }), t)));
  }

  // Rows of the chosen core first.
  private layout() {
    const l = this.state.launch, tracks = l.raw.tracks;
    this.rows = [];
    let y = 22;
    const add = (r: Omit<Row, "y">) => { this.rows.push({ ...r, y }); y += r.height; };
    const order = [this.state.core, ...l.cores.filter((c) => c !== this.state.core)];
    for (const core of order) {
      const named = core >= 0 ? l.path(core) : "kernel";
      const lanes = l.lanes.filter((x) => tracks[x.track].parent === core && tracks[x.track].kind !== Kind.Counter);
      lanes.sort((a, b) => tracks[a.track].kind - tracks[b.track].kind);
      if (core !== this.state.core) { // one row, of what it computes with; a click chooses it
        const busy = (x: Lane) => { let r = 0; for (let i = 0; i < x.begin.length; ++i) r += x.end[i] - x.begin[i]; return r; };
        const units = lanes.filter((x) => tracks[x.track].kind === Kind.Unit), lane = (units.length ? units : lanes).reduce((a, b) => busy(b) > busy(a) ? b : a);
        add({ label: named, depth: 0, lane, height: kRow, title: named, core });
        continue;
      }
      add({ label: named, depth: 0, height: kGroup, title: named });
      let last = -1;
      for (const lane of lanes) {
        const label = short(tracks[lane.track].name);
        add({ label: lane.track === last ? "" : label, depth: 1, lane, height: kRow, title: label });
        last = lane.track;
      }
      for (const c of l.counters) if (tracks[c.track].parent === core) add({ label: tracks[c.track].name.replace(/^semaphore /, "").replace(this.owner(core), ""), depth: 1, counter: c, height: kCounter, title: tracks[c.track].name });
    }
    this.row = Math.min(this.row, this.rows.length - 1);
    this.height = y + 6;
    this.note.textContent = l.raw.left_out ? `Not shown: ${l.raw.left_out}.` : "";
  }

  // What follows the name of what a core's device has, or a cluster that is the only one: the row above says it.
  private owner(core: number): RegExp {
    const l = this.state.launch;
    return core >= 0 && /^device \d+\b/.test(l.path(core)) ? new RegExp(` (of|on) device ${l.deviceOf(core)}$`) : / of cluster \(0\)(, CTA cluster=0)?$/;
  }

  private x(t: number, width: number): number { return this.labels + (t - this.state.from) / (this.state.to - this.state.from) * (width - this.labels); }
  private t(x: number, width: number): number { return this.state.from + (x - this.labels) / (width - this.labels) * (this.state.to - this.state.from); }

  private context(canvas: HTMLCanvasElement): { c: CanvasRenderingContext2D; w: number } {
    const w = this.width, r = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(w * r) || canvas.height !== Math.round(this.height * r)) {
      canvas.width = Math.round(w * r);
      canvas.height = Math.round(this.height * r);
      canvas.style.width = `${w}px`;
      canvas.style.height = `${this.height}px`;
    }
    const c = canvas.getContext("2d")!;
    c.setTransform(r, 0, 0, r, 0, 0);
    c.clearRect(0, 0, w, this.height);
    return { c, w };
  }

  // The width is asked for here alone: asking lays out the page.
  resized() { this.width = this.box.clientWidth; this.draw(); }
  private draw() {
    if (!this.width) return;
    this.labels = this.width < 560 ? 90 : 170;
    const { c, w } = this.context(this.canvas), col = colours();
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    this.ruler(c, w);
    for (const row of this.rows) {
      c.save();
      c.beginPath();
      c.rect(0, row.y, this.labels - 6, row.height);
      c.clip();
      c.fillStyle = row.depth ? col.dim : col.text;
      c.fillText(this.fitted(c, row.label, this.labels - 12 - 8 * row.depth), 4 + 8 * row.depth, row.y + row.height / 2);
      c.restore();
      c.save();
      c.beginPath();
      c.rect(this.labels, row.y, w - this.labels, row.height);
      c.clip();
      if (row.lane) this.lane(c, w, row, row.lane);
      if (row.counter) this.counter(c, w, row, row.counter);
      c.restore();
    }
    this.drawOver();
    this.place();
  }

  // The middle of what is too long is left out: names differ in their ends.
  private fitted(c: CanvasRenderingContext2D, text: string, wide: number): string {
    if (c.measureText(text).width <= wide) return text;
    let lo = 2, hi = text.length;
    const cut = (n: number) => `${text.slice(0, Math.ceil(n / 2))}…${text.slice(text.length - Math.floor(n / 2))}`;
    while (lo < hi) { const mid = (lo + hi + 1) >> 1; if (c.measureText(cut(mid)).width <= wide) lo = mid; else hi = mid - 1; }
    return cut(lo);
  }

  private ruler(c: CanvasRenderingContext2D, w: number) {
    const { launch, from, to } = this.state, col = colours();
    const rough = (to - from) / Math.max((w - this.labels) / 110, 1), power = Math.pow(10, Math.floor(Math.log10(rough)));
    let step = [1, 2, 5, 10].map((x) => x * power).find((x) => x >= rough)!;
    if (launch.raw.unit === "steps") step = Math.max(1, Math.round(step));
    c.strokeStyle = col.rule;
    c.fillStyle = col.dim;
    c.lineWidth = 1;
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = Math.round(this.x(t, w)) + 0.5;
      c.beginPath();
      c.moveTo(x, 14);
      c.lineTo(x, this.height);
      c.stroke();
      const text = launch.time(t);
      if (x + 3 + c.measureText(text).width <= w) c.fillText(text, x + 3, 8);
    }
  }

  // At most one box a pixel: what is narrower than that lies in the one before.
  private lane(c: CanvasRenderingContext2D, w: number, row: Row, lane: Lane) {
    const { from, to, line, launch } = this.state, col = colours(), names = launch.raw.names;
    const track = launch.raw.tracks[lane.track], unit = track.kind === Kind.Unit, flight = track.kind === Kind.Flight, scale = (w - this.labels) / (to - from);
    let i = Math.max(before(lane.end, from), 0), drawn = -1;
    for (; i < lane.begin.length && lane.begin[i] <= to; ++i) {
      if (lane.end[i] < from) continue;
      const x = this.labels + (lane.begin[i] - from) * scale, wide = (lane.end[i] - lane.begin[i]) * scale;
      const marked = line >= 0 && lane.line[i] === line;
      if (x + wide < drawn && !marked) continue;
      const named = kindOf(flight ? track.name : names[lane.name[i]], unit), kind = named === "in" && lane.away?.[i] ? "out" : named, width = Math.max(wide, 1);
      c.globalAlpha = line >= 0 && !marked ? 0.25 : 1;
      c.fillStyle = col.kinds[kind];
      const top = kind === "wait" ? row.y + row.height / 2 - 2 : row.y + 2, tall = kind === "wait" ? 4 : row.height - 4, across = Math.max(width - (width > 3 ? 0.6 : 0), 0.8);
      c.fillRect(x, top, across, tall);
      const pattern = width > 4 ? stripesOf(c, kind) : null;
      if (pattern) { c.fillStyle = pattern; c.fillRect(x, top, across, tall); }
      if (kind === "step" && width > 4) { c.fillStyle = col.ground; c.fillRect(x + 1.5, top + 1.5, across - 3, tall - 3); }
      if (marked) { c.strokeStyle = col.text; c.strokeRect(x + 0.5, row.y + 1.5, Math.max(width - 1, 1), row.height - 3); }
      if (wide > 34 && kind !== "wait") {
        const begin = Math.max(x, this.labels), room = Math.min(x + wide, w) - begin - 2, name = names[lane.name[i]];
        c.save();
        c.beginPath();
        c.rect(begin, row.y, room, row.height);
        c.clip();
        c.fillStyle = kind === "step" ? col.ground : col.kinds[kind];
        if (pattern) c.fillRect(begin + 2, top, c.measureText(name).width + 4, tall);
        c.fillStyle = kind === "step" ? col.text : col.inks[kind];
        c.fillText(name, begin + 4, row.y + row.height / 2 + 0.5);
        c.restore();
      }
      drawn = Math.floor(x + wide) + 1;
    }
    c.globalAlpha = 1;
  }

  private counter(c: CanvasRenderingContext2D, w: number, row: Row, counter: Counter) {
    const { from, to } = this.state, col = colours(), tall = row.height - 5, base = row.y + row.height - 2;
    c.fillStyle = col.kinds.sync;
    c.globalAlpha = 0.55;
    const y = (v: number) => base - (counter.most > 0 ? Math.max(v, 0) / counter.most * tall : 0);
    let i = Math.max(before(counter.time, from), 0), drawn = -1;
    for (; i < counter.time.length && counter.time[i] <= to; ++i) {
      const x = this.x(Math.max(counter.time[i], from), w);
      const next = i + 1 < counter.time.length ? this.x(Math.min(counter.time[i + 1], to), w) : w;
      if (next < drawn) continue;
      const top = y(counter.value[i]);
      c.fillRect(x, top, Math.max(next - x, 1), base - top);
      drawn = Math.floor(next) + 1;
    }
    c.globalAlpha = 1;
    const most = `most ${counter.most >= 4096 && !/^phase/.test(row.title) ? bytes(counter.most) : Number(counter.most.toPrecision(5))}`, wide = c.measureText(most).width + 8;
    c.fillStyle = col.ground;
    c.fillRect(w - wide, row.y + 1, wide, 14);
    c.fillStyle = col.dim;
    c.fillText(most, w - wide + 4, row.y + 8);
  }

  private drawOver() {
    if (!this.width) return;
    const { c, w } = this.context(this.over);
    if (this.hovered) this.arrows(c, w, this.hovered);
    const row = this.rows[this.row];
    if (document.activeElement !== this.canvas || !this.canvas.matches(":focus-visible") || !row) return;
    c.strokeStyle = colours().cursor;
    c.lineWidth = 1.5;
    c.strokeRect(1, row.y + 0.5, w - 2, row.height - 1);
  }

  // Of the row that keys are about: what it has at the moment, also for who hears the page.
  private say() {
    const row = this.rows[this.row], { launch, time } = this.state;
    if (!row) return;
    const i = row.lane ? launch.sliceAt(row.lane, time) : -1;
    this.words.textContent = `${row.title}: ${row.counter ? this.counted(row, time) : !row.lane ? "a core" : i < 0 ? "nothing" : this.about(row.lane, i).join(", ")}`;
  }
  private key(e: KeyboardEvent) {
    const by = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0, row = this.rows[this.row];
    if (e.key === "Enter" && row) {
      const i = row.lane ? this.state.launch.sliceAt(row.lane, this.state.time) : -1;
      if (row.core !== undefined) { this.state.setCore(row.core); this.row = 0; } else if (i >= 0 && row.lane!.line[i] >= 0) this.state.setLine(row.lane!.line[i]);
    } else if (by) this.row = Math.min(Math.max(this.row + by, 0), this.rows.length - 1); else return;
    e.preventDefault();
    this.say();
    this.drawOver();
  }

  // The moment: an element of its own, so that nothing is drawn anew.
  private place() {
    const w = this.width, { time, from, to, launch } = this.state;
    this.cursor.hidden = !w || time < from || time > to;
    if (this.cursor.hidden) return;
    const x = this.x(time, w);
    this.cursor.style.transform = `translateX(${x.toFixed(1)}px)`;
    this.moment.textContent = launch.time(time);
    if (document.activeElement === this.canvas) this.say();
    const half = 4 + 3.4 * this.moment.textContent!.length; // about half of its width
    this.moment.style.transform = `translateX(calc(-50% + ${(Math.min(w - x - half, 0) + Math.max(this.labels - 40 + half - x, 0)).toFixed(1)}px))`;
  }

  private arrows(c: CanvasRenderingContext2D, w: number, at: { row: Row; i: number }) {
    const a = this.state.launch.raw.arrows, lanes = this.state.launch.lanes, own = lanes.indexOf(at.row.lane!);
    const rowOf = (lane: number) => this.rows.find((r) => r.lane === lanes[lane]);
    c.strokeStyle = colours().text;
    c.lineWidth = 1.2;
    for (let k = 0; k < a.length; k += 4) {
      if (!(a[k] === own && a[k + 1] === at.i) && !(a[k + 2] === own && a[k + 3] === at.i)) continue;
      const from = rowOf(a[k]), to = rowOf(a[k + 2]);
      if (!from || !to) continue;
      const x = this.x(lanes[a[k]].begin[a[k + 1]], w), x2 = this.x(lanes[a[k + 2]].end[a[k + 3]], w);
      c.beginPath();
      c.moveTo(x, from.y + from.height / 2);
      c.bezierCurveTo(x + 20, to.y, x2 - 20, from.y, x2, to.y + to.height / 2);
      c.stroke();
    }
  }

  private find(e: MouseEvent): { row: Row; i: number; t: number } | null {
    const r = this.canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    if (x < this.labels) return null;
    const t = this.t(x, r.width), near = (this.state.to - this.state.from) / (r.width - this.labels) * 2;
    const row = this.rows.find((q) => y >= q.y && y < q.y + q.height);
    if (!row?.lane) return { row: row!, i: -1, t };
    const i = before(row.lane.begin, t + near);
    return { row, i: i >= 0 && row.lane.end[i] >= t - near ? i : -1, t };
  }

  private pointed(e: PointerEvent) {
    const at = this.find(e);
    if (e.buttons & 1 && at && !e.shiftKey) { this.state.setTime(at.t); return; }
    const had = this.hovered;
    this.hovered = at && at.row?.lane && at.i >= 0 ? { row: at.row, i: at.i } : null;
    if ((had || this.hovered) && (had?.row !== this.hovered?.row || had?.i !== this.hovered?.i)) this.drawOver();
    if (!this.hovered) {
      const row = at && at.row?.counter ? at.row : this.labelAt(e);
      if (row) this.tell(e, [row.title, ...(at && row.counter ? [this.counted(row, at.t)] : [])]); else this.tip.hidden = true;
      return;
    }
    this.tell(e, this.about(this.hovered.row.lane!, this.hovered.i));
  }

  private about(lane: Lane, i: number): string[] {
    const { launch } = this.state, line = lane.line[i] >= 0 ? launch.raw.lines[lane.line[i]] : null;
    const lines = [launch.raw.names[lane.name[i]], `${launch.time(lane.begin[i])}, for ${launch.time(lane.end[i] - lane.begin[i]).replace("step ", "")}`];
    if (lane.point && lane.point[i] >= 0) lines.push(`grid point ${launch.raw.names[lane.point[i]]}`);
    if (line) lines.push(`line ${line.line}: ${line.text.trim()}`);
    if (lane.folded && lane.folded[i]) lines.push(`stands for ${lane.folded[i]} slices`);
    return lines;
  }

  private labelAt(e: MouseEvent): Row | undefined {
    const r = this.canvas.getBoundingClientRect(), y = e.clientY - r.top;
    return e.clientX - r.left < this.labels ? this.rows.find((q) => y >= q.y && y < q.y + q.height) : undefined;
  }
  private counted(row: Row, t: number): string {
    const v = this.state.launch.counterAt(row.counter!, t);
    return `${this.state.launch.time(t)}: ${row.counter!.most >= 4096 && !/^phase/.test(row.title) ? bytes(v) : v}`;
  }
  private tell(e: MouseEvent, lines: string[]) {
    this.tip.replaceChildren(...lines.map((x, k) => h("div", { class: k ? "" : "strong" }, x)));
    this.tip.hidden = false;
    const box = this.element.getBoundingClientRect();
    this.tip.style.left = `${Math.min(e.clientX - box.left + 14, Math.max(box.width - 300, 0))}px`;
    this.tip.style.top = `${e.clientY - box.top + 16}px`;
  }

  private pressed(e: PointerEvent) {
    this.canvas.focus();
    const at = this.find(e);
    const y = e.clientY - this.canvas.getBoundingClientRect().top, row = this.rows.find((r) => y >= r.y && y < r.y + r.height);
    if (row?.core !== undefined && !at) this.state.setCore(row.core);
    if (!at) return;
    this.canvas.setPointerCapture(e.pointerId);
    this.state.setTime(at.t);
    if (at.row?.lane && at.i >= 0 && at.row.lane.line[at.i] >= 0) this.state.setLine(at.row.lane.line[at.i]);
  }

  private wheeled(e: WheelEvent) {
    if (!e.ctrlKey && !e.shiftKey && Math.abs(e.deltaX) < Math.abs(e.deltaY)) return; // the page scrolls
    e.preventDefault();
    const r = this.canvas.getBoundingClientRect(), t = this.t(e.clientX - r.left, r.width);
    if (e.ctrlKey) return this.state.zoom(Math.exp(e.deltaY / 300), t);
    const by = (e.deltaX || e.deltaY) / r.width * (this.state.to - this.state.from);
    this.state.setView(this.state.from + by, this.state.to + by);
  }
}
