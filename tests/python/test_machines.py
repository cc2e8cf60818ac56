"""The chips: the same in Python and C++, and figures that say they are JAX's are JAX's."""
import pytest
from jax.experimental.pallas import tpu as pltpu

import pallasim
from pallasim import _core

TPUS = [name for name, m in pallasim.MACHINES.items() if m.ir_machine == "tpu"]


def test_every_chip_is_a_machine():
    assert list(pallasim.MACHINES)[0] == "generic"
    assert len(TPUS) == 5
    for name, machine in pallasim.MACHINES.items():
        figures = _core.chip_figures(name)
        assert bool(figures) == (name != "generic")
        if figures:
            assert figures["device_kind"][0] == machine.device_kind
            assert int(figures["device_cores"][0]) == machine.num_cores


def test_launch_gets_the_chip():
    assert "chip=tpu-v5e" in pallasim.Params(machine="tpu-v5e").text()
    with pytest.raises(ValueError, match="unknown machine"):
        pallasim.Params(machine="tpu-v9")


@pytest.mark.parametrize("name", TPUS)
def test_figures_of_tpus_are_those_of_jax(name):
    figures = {k: v[0] for k, v in _core.chip_figures(name).items()}
    with pallasim.emulate(name):
        info = pltpu.get_tpu_info()
    assert info.num_cores == int(figures["device_cores"])
    same = {"generation": info.generation, "lanes": info.num_lanes, "sublanes": info.num_sublanes, "mxu_size": info.mxu_column_size,
            "mxus": info.num_mxus, "vmem_bytes": info.vmem_capacity_bytes, "smem_bytes": info.smem_capacity_bytes,
            "cmem_bytes": info.cmem_capacity_bytes}
    if info.sparse_core is not None:
        same |= {"sparsecores": info.sparse_core.num_cores, "subcores": info.sparse_core.num_subcores,
                 "subcore_lanes": info.sparse_core.num_lanes, "subcore_vmem_bytes": info.sparse_core.vmem_capacity_bytes,
                 "subcore_dma_granule": info.sparse_core.dma_granule_size_bytes}
    else:
        same["sparsecores"] = 0
    assert {k: int(figures[k]) for k in same} == same
