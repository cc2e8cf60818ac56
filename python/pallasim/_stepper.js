// The buttons of a stepper (docs/debugger.md): what they say goes to Python, which sends the page that is shown.
const BUTTONS = [
  ["restart", "\u2759\u25c0", "to the start", "R"],
  ["reverse-continue", "\u25c0\u25c0", "back to the last breakpoint", "C"],
  ["back", "\u25c0", "one line back", "b"],
  ["next", "\u25b6", "to the next line", "n"],
  ["step", "\u2935", "into functions and loops", "s"],
  ["finish", "\u2934", "out of this function or loop", "f"],
  ["continue", "\u25b6\u25b6", "to the next breakpoint, or the end", "c"],
];

function made(tag, parent, properties) {
  const e = Object.assign(document.createElement(tag), properties);
  parent.append(e);
  return e;
}

function render({ model, el }) {
  const root = made("div", el, { className: "pallasim-stepper", tabIndex: 0 });
  const bar = made("div", root, {});
  const problem = made("div", root, { role: "alert" });
  const view = made("div", root, {});
  bar.style.cssText = "display:flex;gap:4px;flex-wrap:wrap;margin-bottom:4px";
  let asked = null; // how many were answered when the last message left
  const send = (message) => {
    if (asked !== null) return; // the kernel still runs
    asked = model.get("answered");
    enable();
    model.send(message);
  };
  const buttons = BUTTONS.map(([what, label, title, key]) => {
    const b = made("button", bar, { textContent: label, title: `${title} (${key})`, ariaLabel: title });
    b.dataset.do = what;
    b.onclick = () => send({ do: what });
    return b;
  });
  const input = made("input", bar, { type: "text", placeholder: "watch: acc_ref[0:8] - x" });
  input.style.cssText = "flex:1;min-width:12em";
  input.onkeydown = (e) => {
    e.stopPropagation(); // the notebook's keys, and ours
    if (e.key !== "Enter" || !input.value.trim()) return;
    send({ do: "watch", expression: input.value.trim() });
    input.value = "";
  };
  root.onkeydown = (e) => {
    const button = BUTTONS.find(([, , , key]) => key === e.key);
    if (!button || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    send({ do: button[0] });
  };
  view.onclick = (e) => {
    const at = e.target.closest("[data-line],[data-thread]");
    if (!at) return;
    if (at.dataset.thread) send({ do: "thread", thread: Number(at.dataset.thread) });
    else send({ do: "toggle", file: at.dataset.file, line: Number(at.dataset.line) });
  };
  const enable = () => buttons.forEach((b) => (b.disabled = asked !== null));
  const show = () => {
    const open = [...view.querySelectorAll("details")].map((d) => d.open);
    view.innerHTML = model.get("html");
    view.querySelectorAll("details").forEach((d, i) => (d.open = open[i] ?? false));
    for (const e of view.querySelectorAll("[data-line],[data-thread]")) e.style.cursor = "pointer";
  };
  const tell = () => (problem.textContent = model.get("problem"));
  const answer = () => {
    asked = null;
    enable();
  };
  model.on("change:html", show);
  model.on("change:problem", tell);
  model.on("change:answered", answer);
  show();
  tell();
  return () => {
    model.off("change:html", show);
    model.off("change:problem", tell);
    model.off("change:answered", answer);
  };
}

export default { render };
