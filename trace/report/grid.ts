// The grid: which points are done, which run, which come.
import { State } from "./state";
import { colours, h, panel } from "./dom";

const kTall = 240, kWide = 420, kCell = 24;

export class GridView {
  readonly element: HTMLElement;
  private canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "Grid. Left and right: the event before and the next one." });
  private words = h("p", { class: "dim" });
  private sizes: number[] = [];
  private place: Int32Array = new Int32Array(0); // of each point of the launch: its number in row-major order
  private total = 1;
  // Columns and rows of a plane, planes beside each other and below, size of a cell, points that a cell stands for.
  private cols = 1;
  private rows = 1;
  private across = 1;
  private cell = kCell;
  private each = 1;
  private shown: Uint8Array = new Uint8Array(0); // what each cell was drawn as; 0: not yet
  private next: Uint8Array = new Uint8Array(0);
  constructor(private state: State) {
    this.element = panel("grid", "Grid", this.words, this.legend(), this.canvas);
    this.canvas.addEventListener("pointerdown", (e) => this.pressed(e));
    state.listen((what) => { if (what === "launch") this.fresh(); if (what === "time") this.draw(); if (what === "launch") this.redraw(); });
    new ResizeObserver(() => this.redraw()).observe(this.element);
    this.fresh();
  }
  private legend(): HTMLElement {
    const names: [string, string][] = [["todo", "to come"], ["running", "under way"], ["done", "done"]];
    return h("p", { class: "legend" }, ...names.map(([k, t]) => h("span", {}, h("i", { class: `swatch ${k}` }), t)));
  }
  private fresh() {
    const g = this.state.launch.raw.grid, names = this.state.launch.raw.names;
    this.sizes = g.axes.map((a) => a.size).filter((n) => n > 0);
    const points = g.name.map((n) => names[n].slice(1, -1).split(",").map(Number));
    if (!this.sizes.length || points.some((p) => p.length !== this.sizes.length && p.length !== 1)) {
      const sizes: number[] = (points[0] ?? []).map(() => 1);
      for (const p of points) for (let d = 0; d < sizes.length; ++d) sizes[d] = Math.max(sizes[d], (p[d] ?? 0) + 1);
      this.sizes = sizes;
    }
    this.total = this.sizes.reduce((a, b) => a * b, 1);
    this.place = Int32Array.from(points, (p) => p.length === this.sizes.length ? p.reduce((at, v, d) => at * this.sizes[d] + v, 0) : p[0]);
    this.element.hidden = !g.name.length;
  }
  // As large as fits: the last two dimensions are a plane, planes lie beside each other; a long row is folded, and where there are more points than
  // room, neighbours share a cell.
  private measure(wide: number) {
    const n = this.sizes.length, last = this.sizes[n - 1] ?? 1;
    let planes = 1;
    this.each = 1;
    if (n > 1 && last <= wide / 2 && this.sizes[n - 2] <= kTall / 2) {
      this.cols = last, this.rows = this.sizes[n - 2], planes = this.total / (this.cols * this.rows);
    } else {
      this.each = Math.ceil(this.total / (wide / 3 * (kTall / 3)));
      const cells = Math.ceil(this.total / this.each);
      this.cols = Math.min(cells, Math.max(32, Math.ceil(Math.sqrt(cells * wide / kTall))));
      this.rows = Math.ceil(cells / this.cols);
    }
    const fits = (cell: number) => { const across = Math.max(Math.min(Math.floor((wide + cell) / ((this.cols + 1) * cell)), planes), 1); return { across, tall: Math.ceil(planes / across) * (this.rows + 1) * cell, wide: across * (this.cols + 1) * cell - cell }; };
    this.cell = kCell;
    while (this.cell > 2 && (fits(this.cell).tall > kTall || fits(this.cell).wide > wide)) this.cell -= this.cell > 4 ? 1 : 0.5;
    if (planes > 1 && fits(this.cell).tall > 2 * kTall) { // too many planes: one long row
      this.each = Math.ceil(this.total / (wide / 3 * (kTall / 3)));
      const cells = Math.ceil(this.total / this.each);
      planes = 1;
      this.cols = Math.min(cells, Math.floor(wide / 3)), this.rows = Math.ceil(cells / this.cols), this.cell = 3;
    }
    this.across = fits(this.cell).across;
    return { planes, cells: Math.ceil(this.total / this.each) };
  }
  private corner(c: number): [number, number] {
    const plane = Math.floor(c / (this.cols * this.rows)), inside = c % (this.cols * this.rows);
    return [((plane % this.across) * (this.cols + 1) + inside % this.cols) * this.cell, (Math.floor(plane / this.across) * (this.rows + 1) + Math.floor(inside / this.cols)) * this.cell];
  }
  redraw() {
    const w = Math.min(this.element.clientWidth - 24, kWide);
    if (w <= 0 || !this.place.length) return;
    const { planes, cells } = this.measure(w), ratio = window.devicePixelRatio || 1;
    const wide = (Math.min(planes, this.across) * (this.cols + 1) - 1) * this.cell, tall = (Math.ceil(planes / this.across) * (this.rows + 1) - 1) * this.cell;
    this.canvas.width = Math.round(wide * ratio);
    this.canvas.height = Math.round(tall * ratio);
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${tall}px`;
    this.canvas.getContext("2d")!.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.shown = new Uint8Array(cells);
    this.next = new Uint8Array(cells);
    this.draw();
  }
  // Cells that are not what they were.
  private draw() {
    const { launch, time } = this.state;
    if (!this.shown.length) return;
    const running: string[] = [], late = time > launch.pointsUntil, next = this.next.fill(late ? 4 : 1);
    let finished = 0, under = 0;
    for (let i = 0; i < this.place.length && launch.pointBegin[i] <= time; ++i) {
      const is = launch.pointEnd[i] > time, c = Math.floor(this.place[i] / this.each);
      if (is) next[c] = 3; else if (next[c] !== 3) next[c] = 2;
      if (!is) ++finished; else if (++under < 5) running.push(launch.raw.names[launch.raw.grid.name[i]]);
    }
    const c = this.canvas.getContext("2d")!, col = colours(), tones = ["", col.rule, col.done, col.kinds.compute, col.ground];
    const size = this.cell - (this.cell > 5 ? 1 : 0);
    for (let k = 0; k < next.length; ++k) {
      if (next[k] === this.shown[k]) continue;
      const [x, y] = this.corner(k);
      c.fillStyle = tones[next[k]];
      c.fillRect(x, y, size, size);
      if (next[k] === 3 && this.cell > 4) { // a mark, for whom the colours are the same
        c.fillStyle = col.inks.compute;
        c.fillRect(x + size / 2 - size / 6, y + size / 2 - size / 6, size / 3, size / 3);
      }
      if (next[k] === 1 && this.cell > 4) { c.fillStyle = col.ground; c.fillRect(x + 1, y + 1, size - 2, size - 2); }
    }
    this.shown.set(next);
    const axes = launch.raw.grid.axes, what = axes.length ? "points" : "programs, of the cores that are shown";
    const now = late ? `those that begin after ${launch.time(launch.pointsUntil)} are left out of this page` : `${finished} done, ${under} under way${under && under < 5 ? `: ${running.join(" ")}` : ""}`;
    this.words.textContent = `${this.sizes.join(" × ")} ${what}${axes.some((a) => a.name) ? ` (${axes.map((a) => a.name).join(", ")})` : ""}: ${now}`
      + (this.each > 1 ? `. A cell is ${this.each} of them` : "");
  }
  private pressed(e: PointerEvent) {
    const r = this.canvas.getBoundingClientRect(), x = Math.floor((e.clientX - r.left) / this.cell), y = Math.floor((e.clientY - r.top) / this.cell);
    const plane = Math.floor(y / (this.rows + 1)) * this.across + Math.floor(x / (this.cols + 1)), col = x % (this.cols + 1), row = y % (this.rows + 1);
    if (col >= this.cols || row >= this.rows) return;
    const at = plane * this.cols * this.rows + row * this.cols + col;
    const i = this.place.findIndex((p) => Math.floor(p / this.each) === at);
    if (i >= 0) this.state.setTime(this.state.launch.pointBegin[i]);
  }
}
