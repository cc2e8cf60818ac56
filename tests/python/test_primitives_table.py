"""docs/primitives.csv, from which docs/coverage.md says what JAX has on which machine, is what the tables of JAX's compilers hold."""
from __future__ import annotations

import csv
import pathlib
from typing import Any

import jax
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Primitives that a table of a compiler holds for itself: it makes them of others, or binds them in a loop of its own.
INSIDE = {"mosaic_gpu": {"_copysign"}}
# Primitives that are gone before a compiler looks at its table.
BEFORE = {"tpu": {"custom_fusion"}}

pytestmark = pytest.mark.skipif(jax.__version__ != "0.10.2", reason="the table is that of JAX 0.10.2")


def compilers() -> dict[str, set[str]]:
    """Machine -> names of the primitives that its compiler lowers."""
    from jax._src.pallas.mosaic import lowering, sc_lowering, sc_primitives  # noqa: F401  (the last two fill the table, too)
    from jax._src.pallas.mosaic_gpu import lowering as mosaic_gpu
    from jax.experimental.pallas import mosaic_gpu as plgpu, tpu as pltpu, triton as pltriton  # noqa: F401  (fill the tables)
    from jax._src.pallas.triton import lowering as triton

    def names(*tables: Any) -> set[str]:
        return {p.name for table in tables for p in table}

    tpu = {kind.name: table for kind, table in lowering.lowering_rules.items()}
    return {"tpu": names(tpu["TC"]), "sparsecore": names(tpu["SC_SCALAR_SUBCORE"], tpu["SC_VECTOR_SUBCORE"]),
            "triton": names(triton.triton_lowering_rules), "mosaic_gpu": names(*mosaic_gpu.mosaic_lowering_rules.values())}


@pytest.mark.parametrize("machine", ["tpu", "sparsecore", "triton", "mosaic_gpu"])
def test_what_a_machine_has_is_what_its_compiler_lowers(machine: str) -> None:
    with (ROOT / "docs" / "primitives.csv").open() as file:
        listed = {row["primitive"] for row in csv.DictReader(file) if machine in row["machines"].split()}
    lowered = compilers()[machine] - INSIDE.get(machine, set())
    assert len(lowered) > 70 and lowered == listed - BEFORE.get(machine, set())
