// What the prediction says: where the time goes, what bounds it, advice; and what was found.
import { Launch, Prediction, bytes, rate, seconds } from "./data";
import { State } from "./state";
import { h, panel, s } from "./dom";

function lineOf(l: Launch, file: string, line: number): number { return l.raw.lines.findIndex((x) => x.file === file && x.line === line); }

export class SourceView {
  readonly element: HTMLElement;
  private list = h("div", { class: "code", role: "listbox", tabindex: 0, "aria-label": "Lines of the kernel. Up and down choose one." });
  private rows: HTMLElement[] = [];
  private order: number[] = [];
  private running = new Set<number>();

  constructor(private state: State) {
    this.element = panel("source", "Kernel", this.list);
    this.list.addEventListener("keydown", (e) => this.key(e));
    state.listen((what) => {
      if (what === "launch") this.build();
      if (what === "line") this.select();
      if (what === "time") this.now();
    });
    this.build();
  }

  private build() {
    const l = this.state.launch, files = [...new Set(l.raw.lines.map((x) => x.file))], out: Node[] = [];
    this.rows = [];
    this.order = [];
    const texts = l.raw.lines.filter((x) => x.text.trim()).map((x) => x.text);
    const indent = Math.min(...texts.map((x) => x.length - x.trimStart().length), 40);
    for (const file of files) {
      out.push(h("div", { class: "file", title: file }, file.split("/").pop() ?? file));
      let last = -1, fn = "";
      for (const i of l.raw.lines.map((_, k) => k).filter((k) => l.raw.lines[k].file === file).sort((a, b) => l.raw.lines[a].line - l.raw.lines[b].line)) {
        const x = l.raw.lines[i];
        if (x.function && x.function !== fn) { out.push(h("div", { class: "fn" }, `in ${x.function}`)); fn = x.function; last = -1; }
        if (last >= 0 && x.line > last + 1) out.push(h("div", { class: "skip", "aria-hidden": "true" }, "⋮"));
        last = x.line;
        const part = l.lineTotal > 0 ? x.seconds / l.lineTotal : 0;
        const found = l.raw.findings.filter((f) => f.line === i);
        const cost = x.seconds > 0 ? (l.raw.unit === "steps" ? `${Math.round(x.seconds)}` : `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`) : "";
        const row = h("div", { class: "line", id: `line-${i}`, role: "option", "aria-label": `line ${x.line}${cost ? `, ${cost}` : ""}: ${x.text.trim()}`, "aria-selected": "false", title: cost ? `${l.raw.unit === "steps" ? `${x.seconds} steps` : `${seconds(x.seconds)} of the critical path`}${x.scope ? `, in ${x.scope}` : ""}` : "", click: () => this.state.setLine(this.state.line === i ? -1 : i) },
          h("span", { class: "bar", style: `--part:${(l.lineMost > 0 ? x.seconds / l.lineMost : 0).toFixed(4)}` }), h("span", { class: "cost" }, cost), h("span", { class: "no" }, String(x.line)),
          h("code", {}, x.text.slice(Math.max(Math.min(indent, x.text.length - x.text.trimStart().length), 0)) || " "));
        this.rows[i] = row;
        this.order.push(i);
        out.push(row);
        for (const f of found) out.push(h("div", { class: `finding ${f.severity}` }, h("b", {}, f.code), ` ${f.message}`, ...f.numbers.map((n) => h("div", { class: "small" }, n)), f.hint ? h("div", { class: "small" }, f.hint) : null));
      }
    }
    if (!this.order.length) out.push(h("p", { class: "dim" }, "The kernel came without its lines."));
    this.list.replaceChildren(...out);
    this.running.clear();
    this.select();
    this.now();
    this.hottest();
  }
  // What costs most is seen first.
  hottest() {
    const l = this.state.launch, row = this.rows[l.raw.lines.findIndex((x) => x.seconds > 0 && x.seconds === l.lineMost)];
    if (!row || this.state.line >= 0) return;
    const r = row.getBoundingClientRect(), b = this.list.getBoundingClientRect();
    if (r.top < b.top || r.bottom > b.bottom) this.list.scrollTop += r.top - b.top - b.height / 2;
  }
  private select() {
    this.rows.forEach((r, i) => { r.classList.toggle("selected", i === this.state.line); r.setAttribute("aria-selected", String(i === this.state.line)); });
    const row = this.rows[this.state.line];
    this.list.setAttribute("aria-activedescendant", row ? row.id : "");
    if (row) {
      const r = row.getBoundingClientRect(), b = this.list.getBoundingClientRect();
      if (r.top < b.top || r.bottom > b.bottom) this.list.scrollTop += r.top - b.top - b.height / 2;
    }
  }
  private now() {
    const l = this.state.launch, next = new Set<number>();
    for (const lane of l.lanes) {
      const t = l.raw.tracks[lane.track];
      if (t.parent !== this.state.core) continue;
      const i = l.sliceAt(lane, this.state.time);
      if (i >= 0 && lane.line[i] >= 0) next.add(lane.line[i]);
    }
    for (const i of this.running) if (!next.has(i)) this.rows[i]?.classList.remove("now");
    for (const i of next) this.rows[i]?.classList.add("now");
    this.running = next;
  }
  private key(e: KeyboardEvent) {
    if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
    e.preventDefault();
    e.stopPropagation();
    const at = this.order.indexOf(this.state.line), to = Math.min(Math.max(at + (e.key === "ArrowDown" ? 1 : -1), 0), this.order.length - 1);
    if (this.order.length) this.state.setLine(this.order[to]);
  }
}

function percent(part: number): string { return `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`; }

// A line that was unrolled waits at many operations for the same.
function waitsByLine(p: Prediction): { file: string; line: number; what: string; seconds: number; longest: number; count: number }[] {
  const all = new Map<string, { file: string; line: number; what: string; seconds: number; longest: number; count: number }>();
  for (const w of p.waits) {
    const key = `${w.site.file}:${w.site.line}:${w.what}`, one = all.get(key);
    if (!one) all.set(key, { file: w.site.file, line: w.site.line, what: w.what, seconds: w.seconds, longest: w.longest, count: w.count });
    else { one.seconds += w.seconds; one.count += w.count; one.longest = Math.max(one.longest, w.longest); }
  }
  return [...all.values()].sort((a, b) => b.seconds - a.seconds);
}

// The critical path by what it was spent on, and what waits.
export function timeFacts(state: State): HTMLElement {
  const l = state.launch, p = l.raw.prediction;
  if (!p) return panel("facts", "Time", h("p", { class: "dim" }, "Times are steps: the chip that was named has no figures, or the order of steps was asked for."));
  const shown = p.critical.filter((c) => c.seconds > 0.004 * p.seconds), tone = (i: number) => `tone ${"abcdef"[i % 6]}${i >= 6 ? " again" : ""}`;
  const bar = h("div", { class: "stack", role: "img", "aria-label": `Critical path: ${shown.map((c) => `${c.name} ${percent(c.seconds / p.seconds)}`).join(", ")}` },
    ...shown.map((c, i) => h("span", { class: tone(i), style: `flex:${c.seconds / p.seconds}`, title: `${c.name}: ${seconds(c.seconds)}` }, c.seconds > 0.03 * p.seconds ? h("b", {}, String(i + 1)) : null)));
  const legend = h("table", {}, h("tr", {}, h("th", {}, "critical path"), h("th", { class: "n" }, "time"), h("th", { class: "n" }, "part")),
    ...shown.map((c, i) => h("tr", {}, h("td", {}, h("i", { class: `swatch ${tone(i)}` }), `${i + 1} ${c.name}`), h("td", { class: "n" }, seconds(c.seconds)), h("td", { class: "n" }, percent(c.seconds / p.seconds)))));
  const alone = h("table", {}, h("tr", {}, h("th", {}, "alone it would take"), h("th", { class: "n" }, "time"), h("th", { class: "n" }, "busy"), h("th", { class: "wide" }, "")),
    ...p.bounds.slice(0, 8).map((b) => h("tr", {}, h("td", {}, b.name), h("td", { class: "n" }, seconds(b.seconds)), h("td", { class: "n" }, percent(b.busy)), h("td", {}, h("span", { class: "meter", style: `--part:${Math.min(b.busy, 1).toFixed(4)}` })))));
  const waits = p.waits.length ? h("table", {}, h("tr", {}, h("th", {}, "threads wait"), h("th", { class: "n" }, "all"), h("th", { class: "n" }, "times"), h("th", { class: "n" }, "longest")),
    ...waitsByLine(p).slice(0, 8).map((w) => {
      const n = lineOf(l, w.file, w.line), words = n >= 0 ? `line ${w.line}, ${w.what}` : w.what;
      return h("tr", {}, h("td", {}, n >= 0 ? h("button", { type: "button", class: "plain", click: () => state.setLine(n) }, words) : words), h("td", { class: "n" }, seconds(w.seconds)), h("td", { class: "n" }, String(w.count)), h("td", { class: "n" }, seconds(w.longest)));
    })) : null;
  return panel("facts", "Where the time goes", bar, h("div", { class: "columns" }, legend, alone), waits);
}

export function advice(state: State): HTMLElement | null {
  const l = state.launch, all = l.raw.prediction?.advice ?? [];
  if (!all.length) return null;
  return panel("advice", "What the numbers advise", h("ul", {}, ...all.map((a) => {
    const n = a.site ? lineOf(l, a.site.file, a.site.line) : -1;
    return h("li", {}, a.text.replace(/(\d) us\b/g, "$1 µs"), n >= 0 ? h("button", { type: "button", class: "to", click: () => state.setLine(n) }, `line ${a.site!.line}`) : null);
  })));
}

export function findings(state: State): HTMLElement | null {
  const l = state.launch, all = l.raw.findings.filter((f) => f.line < 0);
  if (!all.length) return null;
  return panel("findings", "Found", ...all.map((f) => h("div", { class: `finding ${f.severity}` }, h("b", {}, f.code), ` ${f.message}`, ...f.numbers.map((n) => h("div", { class: "small" }, n)), f.hint ? h("div", { class: "small" }, f.hint) : null)));
}

// Log-log: what the chip can do, and what this launch does.
export function roofline(state: State): HTMLElement | null {
  const l = state.launch, p = l.raw.prediction;
  if (!p || !(p.flops > 0) || !(p.bytes_read + p.bytes_written > 0)) return null;
  const ai = p.flops / (p.bytes_read + p.bytes_written), done = p.flops / p.seconds, ridge = p.peak_flops / p.peak_bandwidth;
  const W = 360, H = 210, left = 62, bottom = 34, lo = Math.min(ai, ridge) / 10, hi = Math.max(ai, ridge) * 10, top = p.peak_flops * 2, low = Math.min(done, p.peak_bandwidth * lo) / 2;
  const x = (v: number) => left + (Math.log10(v) - Math.log10(lo)) / (Math.log10(hi) - Math.log10(lo)) * (W - left - 10);
  const y = (v: number) => H - bottom - (Math.log10(v) - Math.log10(low)) / (Math.log10(top) - Math.log10(low)) * (H - bottom - 10);
  const out: Node[] = [];
  for (let e = Math.ceil(Math.log10(low)); e <= Math.log10(top); e += Math.max(1, Math.round(Math.log10(top / low) / 5))) {
    const v = Math.pow(10, e);
    out.push(s("line", { x1: left, x2: W - 10, y1: y(v), y2: y(v), class: "rule" }), s("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end", class: "small" }, rate(v, "flop/s")));
  }
  for (let e = Math.ceil(Math.log10(lo)); e <= Math.log10(hi); ++e) {
    const v = Math.pow(10, e);
    out.push(s("line", { x1: x(v), x2: x(v), y1: 10, y2: H - bottom, class: "rule" }), s("text", { x: x(v), y: H - bottom + 14, "text-anchor": "middle", class: "small" }, String(Number(v.toPrecision(2)))));
  }
  out.push(s("path", { d: `M${x(lo)} ${y(p.peak_bandwidth * lo)}L${x(ridge)} ${y(p.peak_flops)}H${x(hi)}`, class: "roof" }));
  out.push(s("line", { x1: x(ai), x2: x(ai), y1: y(done), y2: y(Math.min(p.peak_flops, p.peak_bandwidth * ai)), class: "gap" }));
  out.push(s("circle", { cx: x(ai), cy: y(done), r: 5, class: "here" }));
  out.push(s("text", { x: left + (W - left) / 2, y: H - 4, "text-anchor": "middle", class: "small" }, "flops per byte of device memory"));
  return panel("roofline", "Roofline", s("svg", { viewBox: `0 0 ${W} ${H}`, class: "roofline", role: "img", "aria-label": `Roofline: ${rate(done, "flop/s")} of ${rate(Math.min(p.peak_flops, p.peak_bandwidth * ai), "flop/s")}` }, ...out) as unknown as Node,
    h("p", { class: "dim" }, `${rate(done, "flop/s")} and ${rate((p.bytes_read + p.bytes_written) / p.seconds, "B/s")}: ${(100 * p.peak_seconds / p.seconds).toFixed(0)} % of what the roof allows. ${bytes(p.bytes_read)} read, ${bytes(p.bytes_written)} written${p.bytes_cached > 0 ? `, ${bytes(p.bytes_cached)} from a cache` : ""}.`));
}

export function figures(state: State): HTMLElement | null {
  const p = state.launch.raw.prediction, t = state.launch.raw.traffic;
  if (!p && !t.length) return null;
  const parts: Node[] = [];
  if (p) {
    for (const n of p.notes) parts.push(h("p", {}, n));
    const guessed = p.figures.filter((f) => f.change !== null && Math.abs(f.change) >= 0.005 * p.seconds);
    if (guessed.length) parts.push(h("table", {}, h("tr", {}, h("th", {}, "guessed, and it matters"), h("th", { class: "n" }, "value"), h("th", { class: "n" }, "a quarter larger")),
      ...guessed.map((f) => h("tr", { title: f.source }, h("td", {}, f.name), h("td", { class: "n" }, f.unit === "s" ? seconds(f.value) : `${Number(f.value.toPrecision(4))} ${f.unit}`), h("td", { class: "n" }, `${f.change! > 0 ? "+" : ""}${(100 * f.change! / p.seconds).toFixed(1)} %`)))));
    parts.push(h("p", { class: "dim" }, `It is a model: of the ${p.figures.length} figures that it rests on, ${p.figures.filter((f) => f.status === "measured").length} are measured, ${p.figures.filter((f) => f.status === "published").length} published, ${p.figures.filter((f) => f.status === "guessed").length} guessed.`));
  }
  if (t.length) parts.push(h("table", {}, h("tr", {}, h("th", {}, "traffic of the checked run"), h("th", { class: "n" }, "read"), h("th", { class: "n" }, "written"), h("th", { class: "n" }, "fetched"), h("th", { class: "n" }, "written back")),
    ...t.map((x) => h("tr", {}, h("td", {}, `${x.name} (${x.space})`), h("td", { class: "n" }, bytes(x.bytes_read)), h("td", { class: "n" }, bytes(x.bytes_written)), h("td", { class: "n" }, bytes(x.bytes_fetched)), h("td", { class: "n" }, bytes(x.bytes_written_back))))));
  return panel("known", p ? "How well it is known" : "Traffic", ...parts);
}
