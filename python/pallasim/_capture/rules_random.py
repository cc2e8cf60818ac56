"""Random numbers: keys become words, and what JAX does with keys becomes its own steps on words."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import jaxver
from .accounts import takes
from .attrs import symbol
from .rules_lax import widen
from .rules_memory import plain
from .types import Unsupported
from .writer import Rule, Writer, attr_list

_traces: dict[Any, Any] = {}


def _pallas(impl: Any) -> bool:
    """Pallas' own implementations take keys apart themselves; the others work on words."""
    return getattr(impl, "tag", "") in ("pl", "_pl_stateful")


def _trace(key: Any, f: Callable[..., Any], avals: tuple[Any, ...]) -> Any:
    """The jaxpr of f, traced once per key."""
    import jax

    if key not in _traces:
        if len(_traces) > 512:
            _traces.clear()
        _traces[key] = jax.make_jaxpr(f)(*avals)
    return _traces[key]


def steps(kind: str) -> Rule:
    """The implementation of an operation on keys, written in place."""

    @takes({"seed": "impl", "bits": "bit_width shape", "split": "shape", "fold_in": ""}[kind])
    def rule(w: Writer, eqn: Any) -> None:
        import jax

        prng = jaxver.module("random_prng", load=True) or jaxver.module("prng", load=True)
        p, avals = eqn.params, tuple(v.aval for v in eqn.invars)
        impl = p["impl"] if kind == "seed" else avals[0].dtype._impl
        wrapped = _pallas(impl)
        if kind == "seed" and getattr(impl, "tag", "") == "_pl_stateful":  # a placeholder without words
            w.emit("random_wrap", [w.read(eqn.invars[0])], "", eqn.outvars)
            return

        def words(k: Any) -> Any:
            return prng.random_unwrap(k) if not wrapped else k

        def key_of(result: Any) -> Any:
            is_key = jax.dtypes.issubdtype(result.dtype, jax.dtypes.prng_key)
            return result if is_key else prng.random_wrap(result, impl=impl)

        def f(*args: Any) -> Any:
            if kind == "seed":
                return key_of(prng.iterated_vmap_unary(len(avals[0].shape), impl.seed)(args[0]))
            if wrapped and avals[0].shape:
                raise Unsupported(f"random_{kind} of an array of {impl.name} keys")
            if kind == "bits":
                bits = lambda k: impl.random_bits(k, p["bit_width"], p["shape"])  # noqa: E731
                out = prng.iterated_vmap_unary(len(avals[0].shape), bits)(words(args[0]))
                want = eqn.outvars[0].aval.dtype  # Pallas' generator draws signed words
                return out if out.dtype == want else jax.lax.bitcast_convert_type(out, want)
            if kind == "split":
                return key_of(prng.iterated_vmap_unary(len(avals[0].shape), lambda k: impl.split(k, p["shape"]))(words(args[0])))
            return key_of(prng.iterated_vmap_binary_bcast(avals[0].shape, avals[1].shape, impl.fold_in)(words(args[0]), args[1]))

        key = (kind, impl, p.get("bit_width"), p.get("shape"), tuple((a.shape, a.dtype) for a in avals))
        jaxpr = _trace(key, f, tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
        out = w.inline(jaxpr, [w.read(v) for v in eqn.invars], debug=False)
        w.bind(eqn.outvars, out)

    return rule


@takes()
def threefry2x32(w: Writer, eqn: Any) -> None:
    shape = eqn.outvars[0].aval.shape
    args = [w.read(v) if v.aval.shape in (shape, ()) else widen(w, v, shape) for v in eqn.invars]
    w.emit("threefry2x32", args, "", eqn.outvars)


@takes("algorithm", ignores="shape dtype out_sharding")
def rng_bit_generator(w: Writer, eqn: Any) -> None:
    items = attr_list([("algorithm", symbol(str(eqn.params["algorithm"].name)))])
    w.emit("rng_bit_generator", [w.read(eqn.invars[0])], items, eqn.outvars)


def rules() -> dict[Any, Rule]:
    out: dict[str, Rule] = {
        "tpu.prng_seed_p": plain("prng_seed"), "tpu.prng_random_bits_p": plain("prng_random_bits", "shape"),
        "tpu.split_key_p": plain("prng_split"), "tpu.join_key_p": plain("prng_join", "impl"),
        "threefry.threefry2x32_p": threefry2x32, "lax.rng_bit_generator_p": rng_bit_generator,
    }
    for mod in ("prng", "random_prng", "random", "random_core"):
        for n in ("bits", "seed", "fold_in", "split"):
            out[f"{mod}.random_{n}_p"] = steps(n)
        for n in ("random_wrap", "random_unwrap", "random_clone"):
            out[f"{mod}.{n}_p"] = plain(n, "impl")
        out[f"{mod}.iota_2x32_shape_p"] = plain("iota_2x32", "shape")
        out[f"{mod}.threefry2x32_p"] = threefry2x32
    return {prim: rule for path, rule in out.items() if (prim := jaxver.find(path)) is not None}
