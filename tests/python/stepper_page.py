"""A page with the stepper's widget, whose model Python sets and asks: what a notebook's front end is otherwise."""
from __future__ import annotations

import json
import pathlib
import types

from pallasim import _stepper_html, _stepper_widget


def widget_of(stepper):
    """What Python has of a widget."""
    stepper._widget = types.SimpleNamespace(html=_stepper_html.page(stepper.view), problem="", answered=0)
    return stepper._widget


def written(widget, path):
    """`model.set({...})` there is what Python sends, `sent` what the buttons said."""
    module = pathlib.Path(_stepper_widget.__file__).with_name("_stepper.js").read_text()
    path.write_text(f"""<!doctype html><meta charset="utf-8"><body style="font:14px sans-serif"><div id="at"></div><script type="module">
{module.replace("export default", "const widget =")}
const values = {json.dumps(vars(widget)).replace("</", "<" + chr(92) + "/")}, told = {{}};
window.sent = [];
window.model = {{ get: (n) => values[n], on: (n, f) => (told[n] = f), off: () => {{}}, send: (m) => sent.push(m),
  set: (all) => {{ const old = {{ ...values }}; Object.assign(values, all); for (const n in all) if (all[n] !== old[n]) told[`change:${{n}}`](); }} }};
widget.render({{ model, el: document.getElementById("at") }});
</script></body>""")
    return path
