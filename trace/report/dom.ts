// Elements, whose texts are texts: nothing that a kernel says is taken for markup.
type Child = Node | string | null | undefined | false;
type Attrs = Record<string, string | number | boolean | ((e: any) => void)>;

function fill<E extends Element>(e: E, attrs: Attrs, children: Child[]): E {
  for (const [k, v] of Object.entries(attrs)) {
    if (typeof v === "function") e.addEventListener(k, v as EventListener);
    else if (v === true) e.setAttribute(k, "");
    else if (v !== false) e.setAttribute(k, String(v));
  }
  for (const c of children) if (c || c === "") e.append(c as Node | string);
  return e;
}
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attrs: Attrs = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attrs, children);
}
export function s(tag: string, attrs: Attrs = {}, ...children: Child[]): SVGElement {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attrs, children);
}
export function panel(id: string, title: string, ...children: Child[]): HTMLElement {
  return h("section", { id, class: "panel", "aria-label": title }, h("h2", {}, title), ...children);
}

// Elements of an SVG that are described anew at each moment: those that are there change where they differ.
interface Put { tag: string; attrs: Record<string, string | number>; text: string; title: string; e: SVGElement }
export class Drawing {
  private put: Put[] = [];
  private at = 0;
  constructor(readonly svg: SVGElement) {}
  begin() { this.at = 0; }
  add(tag: string, attrs: Record<string, string | number>, text = "", title = "") {
    const known = this.put[this.at];
    if (known && known.tag === tag) {
      for (const k in attrs) if (known.attrs[k] !== attrs[k]) known.e.setAttribute(k, String(attrs[k]));
      for (const k in known.attrs) if (!(k in attrs)) known.e.removeAttribute(k);
      if (known.text !== text || known.title !== title) fillText(known.e, text, title);
      known.attrs = attrs, known.text = text, known.title = title;
    } else {
      const e = s(tag, attrs);
      fillText(e, text, title);
      if (known) this.svg.replaceChild(e, known.e); else this.svg.append(e);
      this.put[this.at] = { tag, attrs, text, title, e };
    }
    ++this.at;
  }
  end() { for (const p of this.put.splice(this.at)) p.e.remove(); }
}
function fillText(e: SVGElement, text: string, title: string) {
  e.textContent = text;
  if (title) e.append(s("title", {}, title));
}

export type KindName = "compute" | "in" | "out" | "wait" | "sync" | "step";
export interface Colours { text: string; dim: string; rule: string; ground: string; cursor: string; light: string; done: string; kinds: Record<string, string>; inks: Record<string, string> }
let known: Colours | null = null;
export function colours(): Colours {
  if (known) return known;
  const c = getComputedStyle(document.documentElement);
  const of = (n: string) => c.getPropertyValue(n).trim();
  const kinds = { compute: of("--compute"), in: of("--in"), out: of("--out"), wait: of("--wait"), sync: of("--sync"), step: of("--step") };
  known = { text: of("--text"), dim: of("--dim"), rule: of("--rule"), ground: of("--panel"), cursor: of("--cursor"), light: of("--light"), done: of("--done"), kinds,
    inks: Object.fromEntries(Object.entries({ ...kinds, cursor: of("--cursor") }).map(([k, v]) => [k, ink(v)])) };
  return known;
}
export function newColours() { known = null; stripes.clear(); }

// Black or white, whichever is read better on a colour.
export function ink(colour: string): string {
  const part = (i: number) => { const v = parseInt(colour.length === 4 ? colour[1 + i] + colour[1 + i] : colour.slice(1 + 2 * i, 3 + 2 * i), 16) / 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); };
  const light = 0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2);
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000" : "#fff";
}

// What tells kinds apart where colours do not: stripes up, down or upright; what computes is plain, other steps are hollow, waits a thin line.
const stripes = new Map<string, CanvasPattern | null>();
export function stripesOf(c: CanvasRenderingContext2D, kind: string): CanvasPattern | null {
  if (kind !== "in" && kind !== "out" && kind !== "sync") return null;
  const made = stripes.get(kind);
  if (made !== undefined) return made;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const t = tile.getContext("2d")!;
  t.strokeStyle = colours().ground;
  t.globalAlpha = 0.6;
  t.lineWidth = 1.4;
  t.beginPath();
  for (const d of [-6, 0, 6]) {
    if (kind === "in") { t.moveTo(d, 6); t.lineTo(d + 6, 0); }
    if (kind === "out") { t.moveTo(d, 0); t.lineTo(d + 6, 6); }
    if (kind === "sync") { t.moveTo(d + 3, 0); t.lineTo(d + 3, 6); }
  }
  t.stroke();
  const r = c.createPattern(tile, "repeat");
  stripes.set(kind, r);
  return r;
}

// What a slice is about, by which it has its colour and its pattern.
export function kindOf(name: string, unit: boolean): string {
  if (/^wait/.test(name)) return "wait";
  if (/wgmma|tcgen05_mma|contraction|dot/.test(name)) return "compute";
  if (/store|peer/.test(name)) return "out";
  if (/dma|tma|load|copy|block|indirect|fetch/.test(name)) return "in";
  if (/signal|arrive|barrier|sem|commit|scope|spawn/.test(name)) return "sync";
  return unit ? "compute" : "step";
}
