"""Copies of rows that a list names: which row arrives when nobody knows."""
import functools
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

import pallasim

LANES, CHIP = 16, "tpu-7x"
RNG = np.random.default_rng(7)
ROWS = RNG.permutation(32)[:8].astype(np.int32)
TABLE = RNG.integers(1, 1000, (32, 128)).astype(np.int32)


def found_in_rows(move, out, *args, scratch):
    with pallasim.emulate(CHIP, detect_races=True, findings="collect"):
        mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=1)
        pl.kernel(move, out_type=jax.ShapeDtypeStruct(out.shape, out.dtype), mesh=mesh, scratch_types=scratch)(*args)
    return [f for f in pallasim.findings() if f.code != "PS-OUT-001"]


def gathers(table, rows, o, index, buffer):
    pltpu.sync_copy(rows, index)
    pltpu.sync_copy(table.at[index], buffer)
    pltpu.sync_copy(buffer, o)


@pytest.mark.parametrize("rows, boxes", [
    (np.r_[np.arange(40), np.arange(100, 180), np.arange(200, 208)], ["[0:40, 0:128]", "[100:180, 0:128]", "[200:208, 0:128]"]),
    (np.r_[7, 300, RNG.permutation(np.arange(7, 300))[:126]], ["[7:301, 0:128]"])], ids=["three", "many"])
def test_rows_of_a_list_are_one_stream_whose_time_is_its_bytes(rows, boxes, tmp_path):
    """Its picture shows a few runs of neighbouring rows one by one, and of many where they lie."""
    table, out = jnp.ones((512, 128), jnp.float32), jax.ShapeDtypeStruct((128, 128), jnp.float32)

    def seconds(move, page=None):
        with pallasim.emulate(CHIP):
            mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=1)
            f = pl.kernel(move, out_type=out, mesh=mesh, scratch_types=[pltpu.VMEM((128,), jnp.int32), pltpu.VMEM((128, 128), jnp.float32)])
            p = pallasim.predict(f, table, jnp.asarray(rows, jnp.int32), chip=CHIP, values=True, sensitivity=False, report=page and str(page))
        assert p[0].bytes_read == 128 * 128 * 4 + 128 * 4
        return p.seconds

    def copies(table, rows, o, index, buffer):
        pltpu.sync_copy(rows, index)
        pltpu.sync_copy(table.at[pl.ds(0, 128)], buffer)
        pltpu.sync_copy(buffer, o)

    path = tmp_path / "x.html"
    assert seconds(gathers, path) == pytest.approx(seconds(copies), rel=1e-6)
    launch, = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)[1])["launches"]
    moves = launch["moves"]
    of_table = [i for i, room in enumerate(moves["from"]) if launch["rooms"][room]["name"] == "table"]
    assert [launch["names"][moves["from_box"][i]] for i in of_table] == boxes
    assert sum(moves["bytes"][i] for i in of_table) == 128 * 128 * 4


@pytest.mark.parametrize("writes", [False, True])
def test_what_one_subcore_gathers_races_with_another_one_that_writes_there(writes):
    """Reads of an input that nobody writes are not remembered; those of one that somebody writes are."""
    def move(table, rows, o, index, buffer):
        @pl.when(jax.lax.axis_index("subcore") == 0)
        def _():
            gathers(table, rows, o, index, buffer)

        @pl.when(jax.lax.axis_index("subcore") == 1)
        def _():
            pltpu.sync_copy(rows, index)
            if writes:
                pltpu.sync_copy(buffer, table.at[pl.ds(8, 8)])

    with pallasim.emulate(CHIP, detect_races=True, findings="collect"):
        mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=2)
        scratch = [pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 128), jnp.int32)]
        pl.kernel(move, out_type=jax.ShapeDtypeStruct((8, 128), jnp.int32), mesh=mesh, scratch_types=scratch)(TABLE, ROWS)
    assert [f.code for f in pallasim.findings() if f.code == "PS-RACE-002"] == ["PS-RACE-002"] * writes


def test_a_list_that_names_a_row_twice_is_written_twice_at_once():
    """Rows arrive in any order: which one stays nobody knows, but where they add both count."""
    def move(table, rows, o, index, buffer, add):
        pltpu.sync_copy(rows, index)
        pltpu.sync_copy(table.at[pl.ds(0, 8)], buffer)
        pltpu.sync_copy(buffer, o.at[index], add=add)

    scratch = [pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 128), jnp.int32)]
    twice = ROWS.copy()
    twice[6] = ROWS[1]
    assert not found_in_rows(functools.partial(move, add=False), TABLE, TABLE, ROWS, scratch=scratch)
    assert not [f for f in found_in_rows(functools.partial(move, add=True), TABLE, TABLE, twice, scratch=scratch) if f.code == "PS-RACE-001"]
    race, = found_in_rows(functools.partial(move, add=False), TABLE, TABLE, twice, scratch=scratch)
    assert race.code == "PS-RACE-001" and "written by another copy while a copy that nobody awaited yet writes it" in race.message
    assert f"written are elements ({ROWS[1]}, 0) to ({ROWS[1]}, 127) of o" in str(race) and "512 bytes of it are not awaited" in str(race)


@pytest.mark.parametrize("row, said", [(0, ("PS-DMA-002", "note")), (6, ("PS-RACE-001", "warning"))])
def test_who_awaits_some_rows_of_a_list_does_not_know_which(row, said):
    def move(table, rows, o, index, buffer, sem):
        pltpu.sync_copy(rows, index)
        pltpu.async_copy(table.at[index], buffer, sem)
        half = pltpu.make_async_copy(table.at[pl.ds(0, 4)], buffer.at[pl.ds(0, 4)], sem)
        half.wait()
        buffer[row, pl.ds(0, LANES)] = buffer[row, pl.ds(0, LANES)] + 1
        half.wait()
        pltpu.sync_copy(buffer, o)

    scratch = [pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 128), jnp.int32), pltpu.SemaphoreType.DMA]
    found, = found_in_rows(move, TABLE[:8], TABLE, ROWS, scratch=scratch)
    assert (found.code, found.severity) == said
