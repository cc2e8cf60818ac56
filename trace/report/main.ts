// The page: panels around one state, the scrubber, keys.
import { Launch, RawLaunch, seconds } from "./data";
import { State } from "./state";
import { h, newColours } from "./dom";
import { TimelineView } from "./timeline";
import { GridView } from "./grid";
import { MemoryView, OccupancyView, SyncView } from "./memory";
import { SourceView, advice, figures, findings, roofline, timeFacts } from "./facts";

const began = performance.now();
const raw = JSON.parse(document.getElementById("data")!.textContent!) as { launches: RawLaunch[] };
const state = new State(raw.launches.map((l) => new Launch(l)));
const kRange = 10000;

function headline(): HTMLElement {
  const l = state.launch.raw, p = l.prediction;
  const fact = (name: string, value: string) => h("div", { class: "fact" }, h("b", {}, value), h("span", {}, name));
  const facts = p ? [fact("predicted", seconds(p.seconds)), fact("bound by", p.bound || "nothing"), fact("of the roofline", `${(100 * p.peak_seconds / p.seconds).toFixed(0)} %`), p.waves > 0 ? fact("waves", p.waves.toFixed(2)) : null]
    : [fact("to the end", state.launch.time(state.launch.end))];
  const shown = state.launch.end * l.tick, rest = p && Math.abs(p.seconds - shown) > 0.001 * p.seconds ? `; the time line ends at ${seconds(shown)}` : "";
  return h("header", { id: "head" }, h("div", {}, h("h1", {}, l.kernel || "kernel"), h("p", { class: "dim" }, `${l.chip === "generic" ? "no chip" : l.chip}${p ? `, as predicted: a model, not a measurement${rest}` : ", step after step"}`)), h("div", { class: "factlist" }, ...facts));
}

function launches(): HTMLElement | null {
  if (state.launches.length < 2) return null;
  const select = h("select", { "aria-label": "Launch", id: "launch" }, ...state.launches.map((l, i) => h("option", { value: i }, `launch ${i + 1}: ${l.raw.kernel}${l.raw.prediction ? `, ${seconds(l.raw.prediction.seconds)}` : ""}`)));
  select.addEventListener("change", () => state.setLaunch(Number(select.value)));
  return h("nav", {}, select);
}

class Scrubber {
  readonly element: HTMLElement;
  private range = h("input", { type: "range", min: 0, max: kRange, value: 0, step: 1, id: "scrub", "aria-label": "Moment" });
  private readout = h("output", { id: "now" });
  private play = h("button", { type: "button", id: "play", title: "Play (space)", "aria-label": "Play" }, "▶");
  private playing = 0;
  constructor() {
    const button = (label: string, title: string, f: () => void) => h("button", { type: "button", title, "aria-label": title, click: f }, label);
    this.element = h("div", { id: "scrubber", role: "group", "aria-label": "Time" }, this.play, button("◀", "The event before (left arrow)", () => state.step(-1)), button("▶|", "The next event (right arrow)", () => state.step(1)), this.range, this.readout);
    this.range.addEventListener("input", () => state.setTime(Number(this.range.value) / kRange * state.launch.end));
    this.play.addEventListener("click", () => this.toggle());
    state.listen((what) => { if (what === "time" || what === "launch") this.show(); });
    this.show();
  }
  private show() {
    this.range.value = String(Math.round(state.time / state.launch.end * kRange));
    const text = state.launch.time(state.time);
    this.readout.textContent = `${text} of ${state.launch.time(state.launch.end)}`;
    this.range.setAttribute("aria-valuetext", text);
  }
  // The shown part of the time in twelve seconds.
  toggle() {
    if (this.playing) {
      cancelAnimationFrame(this.playing);
      this.playing = 0;
      this.play.textContent = "▶";
      return;
    }
    this.play.textContent = "❚❚";
    if (state.time >= state.to || state.time < state.from) state.setTime(state.from);
    let last = performance.now();
    const tick = (now: number) => {
      const to = state.time + (state.to - state.from) * (now - last) / 12000;
      last = now;
      if (to >= state.to) { state.setTime(state.to); this.toggle(); return; }
      state.setTime(to);
      this.playing = requestAnimationFrame(tick);
    };
    this.playing = requestAnimationFrame(tick);
  }
}

const scrubber = new Scrubber();
const app = document.getElementById("app")!;
const top_ = h("div", { id: "top" }), changing = h("div", { class: "side" }), below = h("div", { class: "grid" });
const source = new SourceView(state), memory = new MemoryView(state), timeline = new TimelineView(state);
const occupancy = new OccupancyView(state), sync = new SyncView(state), grid = new GridView(state);

function facts() {
  top_.replaceChildren(headline());
  changing.replaceChildren(...[advice(state), findings(state)].filter((x): x is HTMLElement => x !== null));
  const parts = [timeFacts(state), roofline(state), grid.element, occupancy.element, sync.element, figures(state)];
  below.replaceChildren(...parts.filter((x): x is HTMLElement => x !== null));
}
state.listen((what) => { if (what === "launch") facts(); });
app.replaceChildren(top_);
const nav = launches();
if (nav) app.append(nav);
app.append(scrubber.element, changing, h("div", { class: "pair" }, source.element, memory.element), timeline.element, below,
  h("footer", { class: "dim" }, "Keys: left and right the event before and the next one, with shift a hundredth; space plays; + and − zoom; up and down choose a line; n and p where it runs next and before; Escape lets go of it. Made by Pallasim."));
facts();
timeline.resized();
memory.resized();
source.hottest();

document.addEventListener("keydown", (e) => {
  const tag = (e.target as HTMLElement).tagName;
  if (e.ctrlKey || e.metaKey || e.altKey || tag === "SELECT") return;
  const part = (state.to - state.from) / 100;
  const acts: Record<string, () => void> = {
    ArrowRight: () => e.shiftKey ? state.setTime(state.time + part) : state.step(1),
    ArrowLeft: () => e.shiftKey ? state.setTime(state.time - part) : state.step(-1),
    Home: () => state.setTime(0), End: () => state.setTime(state.launch.end),
    "+": () => state.zoom(0.5), "=": () => state.zoom(0.5), "-": () => state.zoom(2),
    n: () => state.nextOfLine(1), p: () => state.nextOfLine(-1),
    Escape: () => state.setLine(-1),
  };
  if (e.key === " " && tag !== "BUTTON" && tag !== "SUMMARY") { e.preventDefault(); scrubber.toggle(); return; }
  const act = acts[e.key];
  if (act) { e.preventDefault(); act(); }
});

function redraw() { newColours(); timeline.resized(); memory.resized(); grid.redraw(); }
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
// Paper has a width of its own, and nothing to open or scroll there.
let opened: HTMLDetailsElement[] = [];
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  opened = [...document.querySelectorAll("details")].filter((d) => !d.open);
  for (const d of opened) d.open = true;
  redraw();
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  for (const d of opened) d.open = false;
  redraw();
});

// For tests: how long it took, and what is looked at.
(window as any).pallasim = { state, opened: performance.now() - began };
