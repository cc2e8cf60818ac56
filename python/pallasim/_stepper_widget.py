"""The stepper's buttons, through anywidget, where that is installed (`pip install 'pallasim[notebook]'`)."""
from __future__ import annotations

import functools
import pathlib
import weakref
from typing import TYPE_CHECKING, Any

from . import _adapter, _stepper_html

if TYPE_CHECKING:
    from ._stepper import Stepper


@functools.cache
def _kind() -> Any:
    """The class of widgets; None where there are none."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        return None

    class StepperWidget(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
        _esm = pathlib.Path(__file__).with_name("_stepper.js").read_text()
        html = traitlets.Unicode().tag(sync=True)
        problem = traitlets.Unicode().tag(sync=True)
        answered = traitlets.Int().tag(sync=True)  # messages so far: the buttons wait for theirs

    return StepperWidget


def of(stepper: Stepper) -> Any:
    """A widget of it, None where widgets are off."""
    kind = _kind()
    if kind is None:
        return None
    widget = kind(html=_stepper_html.page(stepper.view))
    whose = weakref.ref(stepper)
    widget.on_msg(lambda _, message, __: answer(whose(), widget, message))
    return widget


def bundle(widget: Any) -> dict[str, Any]:
    data = widget._repr_mimebundle_()
    data = data[0] if isinstance(data, tuple) else data
    return {k: v for k, v in (data or {}).items() if k not in ("text/plain", "text/html")}


def answer(stepper: Stepper | None, widget: Any, message: dict[str, Any]) -> None:
    """Does what a button said."""
    widget.problem = ""
    try:
        if stepper is None:
            raise _adapter.Refused("the debugger has ended")
        act(stepper, message)
    except _adapter.Refused as e:
        widget.problem = str(e)
    widget.answered += 1


def act(stepper: Stepper, message: dict[str, Any]) -> None:
    what = message.get("do", "")
    if what == "toggle":
        stepper.toggle(int(message["line"]), str(message["file"]))
    elif what == "thread":
        stepper.choose(int(message["thread"]))
    elif what in ("watch", "unwatch"):
        getattr(stepper, what)(str(message["expression"]))
    elif what in _adapter.GOING:
        stepper.do(what)
    else:
        raise _adapter.Refused(f"there is no command {what}")
