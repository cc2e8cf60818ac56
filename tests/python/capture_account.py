"""Accounts for every equation of a captured kernel: what the jaxpr had must be in the module.

Wraps the capture of a whole run (a fixture of conftest.py; `-p capture_account` for suites that lie elsewhere). It counts,
from the jaxpr as the user's function traced it, before JAX and before the capture removed anything.
"""
from __future__ import annotations

import collections
import re
from typing import Any

# Operations that a primitive may become; one of them must be there for every equation.
OPERATIONS = {
    "get": ("get",), "swap": ("store", "swap"), "addupdate": ("addupdate",), "masked_load": ("masked_load",),
    "masked_swap": ("masked_store", "masked_swap"), "atomic_rmw": ("atomic_rmw",), "atomic_cas": ("atomic_cas",),
    "dma_start": ("dma_start",), "dma_wait": ("dma_wait",), "semaphore_signal": ("sem_signal", "gpu_sem_signal"),
    "semaphore_wait": ("sem_wait", "gpu_sem_wait"), "semaphore_read": ("sem_read",), "scan": ("for",), "parallel_loop": ("parallel_loop",),
    "while": ("while",), "run_scoped": ("run_scoped",), "debug_print": ("debug_print",), "debug_callback": ("debug_callback",),
    "sparsecore_write": ("store", "masked_store", "addupdate", "atomic_rmw"), "sc_fetch_and_add": ("sc_fetch_and_add",), "barrier": ("sc_barrier",),
}
# A second meaning of a name: loads and stores of pl.load and pltpu.store, and those of SparseCores, share it.
RENAMED = {"jax._src.pallas.primitives": {"load": "masked_load", "masked_load": "masked_load", "swap": "masked_swap", "masked_swap": "masked_swap"}}
EXPANDS = {"sparsecore_write", "emit_pipeline", "pipeline_body", "run_state", "core_map", "mpmd_map", "custom_fusion", "jaxpr_call",
           "inline_mgpu_p", "inline_mgpu"}

kernels = 0       # accounted for in this process
equations = 0
primitives: set[Any] = set()
unread: dict[str, set[str]] = {}  # primitive -> parameters that its rule claims to use and never read


def _is_ref(atom: Any) -> bool:
    return hasattr(getattr(atom, "aval", None), "inner_aval")


def _inner(eqn: Any) -> list[Any]:
    found = []
    for value in eqn.params.values():
        for v in value if isinstance(value, (tuple, list)) else [value]:
            v = getattr(v, "jaxpr", v)
            if hasattr(v, "eqns") and hasattr(v, "invars"):
                found.append(v)
    return found


def _pallas_own(eqn: Any) -> bool:
    from jax._src.pallas import primitives as pallas

    return eqn.primitive in (pallas.load_p, pallas.swap_p)


def _sparsecore_write(eqn: Any) -> bool:
    from jax._src.pallas.mosaic import sc_primitives as sc

    return eqn.primitive in (sc.swap_p, sc.scatter_p)


def _name(eqn: Any) -> str:
    if _sparsecore_write(eqn):
        return "sparsecore_write"
    return ("masked_load" if "load" in eqn.primitive.name else "masked_swap") if _pallas_own(eqn) else eqn.primitive.name


def count(jaxpr: Any, into: collections.Counter | None = None, written: bool = True) -> collections.Counter:
    """How often each primitive of OPERATIONS occurs as the module has it: called jaxprs at every call, with `written` one
    branch where the platform chooses. "expands" counts equations that become more than themselves."""
    out = collections.Counter() if into is None else into
    for eqn in jaxpr.eqns:
        name = _name(eqn)
        if name in OPERATIONS:
            out[name] += 1
        if name in EXPANDS:
            out["expands"] += 1
        if name == "pallas_call":  # a kernel of its own, which a program may drop as a whole
            continue
        if name == "cond" and written and eqn.params.get("branches_platforms") is not None:
            out["expands"] += 1
            continue
        if name in ("custom_jvp_call", "custom_vjp_call"):
            count(eqn.params["call_jaxpr"].jaxpr, out, written)
            continue
        for inner in _inner(eqn):
            count(inner, out, written)
    return out


def written_operations(text: str) -> collections.Counter:
    """Operations of the bodies of a module."""
    out: collections.Counter = collections.Counter()
    inside = False
    for line in text.splitlines():
        inside = (inside or line.startswith("body")) and line != "}"
        if inside and (m := re.match(r"\s+(?:\}\s*)?(?:%[\d, %]+ = )?([a-z_]\w*)", line)):
            out[m[1]] += 1
    return out


def compare(jaxprs: Any, text: str, only: Any = OPERATIONS) -> None:
    """Raises AssertionError where a jaxpr has an equation of `only` that the module has not."""
    wanted: collections.Counter = collections.Counter()
    for j in jaxprs:
        count(j, wanted)
    expands = wanted.pop("expands", 0)
    have = written_operations(text)
    by_operations: collections.Counter = collections.Counter()
    for name in wanted.keys() & set(only):
        n = wanted[name]
        by_operations[OPERATIONS[name]] += n
    for operations, n in by_operations.items():
        found = sum(have[o] for o in operations)
        assert found >= n if expands or operations in (("get",), ("run_scoped",)) else found == n, (
            f"{n} equations should be {' or '.join(operations)}, the module has {found}\n{text}")


class Reads(dict):
    """Parameters that remember which of them were read."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.seen: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def items(self) -> Any:
        self.seen.update(self)
        return super().items()

    def __iter__(self) -> Any:  # dict(params), **params
        self.seen.update(self.keys())
        return super().__iter__()


def watch_rules(table: dict[Any, Any]) -> dict[Any, Any]:
    """The rules, each of which must read what its account says that it uses (at least once in a run)."""
    def watched(rule: Any) -> Any:
        account = getattr(rule, "account", None)

        def call(w: Any, eqn: Any) -> None:
            global equations
            equations += 1
            primitives.add(eqn.primitive)
            key = eqn.primitive.name
            if account is None or (key in unread and not unread[key]):
                return rule(w, eqn)
            params = Reads(eqn.params)
            rule(w, eqn.replace(params=params))
            missing = {k for k in account.used if k in eqn.params} - params.seen
            unread[key] = unread.get(key, missing) & missing

        call.account = account
        return call

    return {prim: watched(rule) for prim, rule in table.items()}


def install() -> None:
    """Watches every capture and every removal of dead code of the process from now on."""
    from jax._src.interpreters import partial_eval
    from pallasim._capture import module

    table, dce = module.rule_table, partial_eval.dce_jaxpr
    if getattr(module.pallas_call, "accounts", False):
        return
    watched: dict[int, Any] = {}

    def rule_table() -> Any:
        rules = table()
        if id(rules) not in watched:
            watched.clear()
            watched[id(rules)] = (rules, watch_rules(rules))
        return watched[id(rules)][1]

    def accounted(capture: Any, only: Any) -> Any:
        def call(params: Any, *args: Any, **kwargs: Any) -> Any:
            global kernels
            captured = capture(params, *args, **kwargs)
            if not any(getattr(a, "skip_floats", False) for a in args):
                jaxprs = [params["jaxpr"]] if "jaxpr" in params else [getattr(j, "jaxpr", j) for j in params["jaxprs"]]
                compare(jaxprs, captured.text, only)
                kernels += 1
            return captured

        call.accounts = True  # type: ignore[attr-defined]
        return call

    def dce_jaxpr(jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        out = dce(jaxpr, *args, **kwargs)
        lost = acts(jaxpr) - acts(out[0])
        assert not lost, f"dead code that acts on refs: {dict(lost)}\n{jaxpr}"
        return out

    # Dead code without effects leaves bodies of meshes at capture; those of pallas_call have lost theirs before.
    module.pallas_call, module.mpmd_map = accounted(module.pallas_call, OPERATIONS), accounted(module.mpmd_map, ACTS)
    module.rule_table, partial_eval.dce_jaxpr = rule_table, dce_jaxpr


def acts(jaxpr: Any) -> collections.Counter:
    """Equations, nested ones too, that write to a ref, communicate or print."""
    found = count(jaxpr, written=False)
    return collections.Counter({k: n for k, n in found.items() if k in ACTS})


ACTS = {"swap", "sparsecore_write", "sc_fetch_and_add", "barrier", "addupdate", "masked_swap", "atomic_rmw", "atomic_cas", "dma_start", "dma_wait", "semaphore_signal", "semaphore_wait",
        "debug_print", "debug_callback"}


def pytest_configure(config: Any) -> None:
    install()
