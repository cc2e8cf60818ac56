// What is looked at: which launch, which moment, which line, which part of the time. Panels listen to changes.
import { Launch, before } from "./data";

export type What = "time" | "line" | "view" | "launch" | "core";

export class State {
  launch: Launch;
  time = 0;
  line = -1; // selected; -1: none
  core: number;
  from = 0; // the part of the time that is shown
  to = 1;
  private listeners: ((what: What) => void)[] = [];
  constructor(readonly launches: Launch[]) {
    this.launch = launches[0];
    this.core = this.launch.cores[0] ?? -1;
    this.to = this.launch.end;
  }
  listen(f: (what: What) => void) { this.listeners.push(f); }
  private tell(what: What) { for (const f of this.listeners) f(what); }
  setTime(t: number) {
    t = Math.min(Math.max(t, 0), this.launch.end);
    if (t === this.time) return;
    this.time = t;
    this.tell("time");
    const width = this.to - this.from;
    if (t < this.from || t > this.to) this.setView(t - width / 2, t + width / 2);
  }
  setLine(line: number) { if (line !== this.line) { this.line = line; this.tell("line"); } }
  setCore(core: number) { this.core = core; this.tell("core"); }
  setView(from: number, to: number) {
    const end = this.launch.end, width = Math.min(Math.max(to - from, Math.min(end, 4)), end);
    from = Math.min(Math.max(from, 0), end - width);
    this.from = from;
    this.to = from + width;
    this.tell("view");
  }
  zoom(factor: number, around = this.time) {
    const at = Math.min(Math.max(around, this.from), this.to);
    this.setView(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  setLaunch(i: number) {
    this.launch = this.launches[i];
    this.time = 0;
    this.line = -1;
    this.core = this.launch.cores[0] ?? -1;
    this.from = 0;
    this.to = this.launch.end;
    this.tell("launch");
  }
  // To the next moment at which something begins or ends, or the one before.
  step(by: number) {
    const e = this.launch.events;
    let i = before(e, this.time);
    if (by > 0) i = Math.min(i + 1, e.length - 1);
    else if (i >= 0 && e[i] === this.time) i = Math.max(i - 1, 0);
    if (e.length) this.setTime(e[Math.max(i, 0)]);
  }
  // To where the selected line runs next.
  nextOfLine(by: number) {
    if (this.line < 0) return this.step(by);
    let best = -1;
    for (const l of this.launch.lanes)
      for (let i = 0; i < l.begin.length; ++i) {
        if (l.line[i] !== this.line) continue;
        const b = l.begin[i];
        if (by > 0 ? b > this.time && (best < 0 || b < best) : b < this.time && b > best) best = b;
      }
    if (best >= 0) this.setTime(best);
  }
}
