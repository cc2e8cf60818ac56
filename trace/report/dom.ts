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

export interface Colours { text: string; dim: string; rule: string; ground: string; cursor: string; light: string; kinds: Record<string, string> }
let known: Colours | null = null;
export function colours(): Colours {
  if (known) return known;
  const c = getComputedStyle(document.documentElement);
  const of = (n: string) => c.getPropertyValue(n).trim();
  known = { text: of("--text"), dim: of("--dim"), rule: of("--rule"), ground: of("--panel"), cursor: of("--cursor"), light: of("--light"),
    kinds: { compute: of("--compute"), in: of("--in"), out: of("--out"), wait: of("--wait"), sync: of("--sync"), step: of("--step") } };
  return known;
}
export function newColours() { known = null; }

// What a slice is about, by which it has its colour: also where colours look alike, its shape or place differs.
export function kindOf(name: string, unit: boolean): string {
  if (/^wait/.test(name)) return "wait";
  if (/wgmma|tcgen05_mma|contraction|dot/.test(name)) return "compute";
  if (/store|peer/.test(name)) return "out";
  if (/dma|tma|load|copy|block|indirect|fetch/.test(name)) return "in";
  if (/signal|arrive|barrier|sem|commit|scope|spawn/.test(name)) return "sync";
  return unit ? "compute" : "step";
}
