"""The chips: the same in Python and C++, and figures that say they are JAX's are JAX's."""
import jax
import numpy as np
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
    assert "machine=tpu-v5e" in pallasim.Params(machine="tpu-v5e").text()
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


def test_devices_answer_as_the_chip_inside_the_block_only():
    device = jax.devices()[0]
    own = device.device_kind
    with pallasim.emulate("tpu-v5p"):
        assert (device.device_kind, device.num_cores, device.coords, device.core_on_chip) == ("TPU v5", 2, (0, 0, 0), 0)
        assert not hasattr(device, "compute_capability")
    with pallasim.emulate("gpu-h100"):
        assert "H100" in device.device_kind and device.compute_capability == "9.0" and not hasattr(device, "num_cores")
    with pallasim.emulate():
        assert device.device_kind == own
    assert device.device_kind == own and not hasattr(device, "num_cores") and not hasattr(device, "coords")


def test_a_mesh_made_elsewhere_is_of_the_emulated_chip():
    """A mesh keeps what its devices said when it was made; inside shard_map libraries are told the chip all the same."""
    meshes = [jax.sharding.Mesh(np.array(jax.devices()[:1]), ("made_outside",))]
    assert meshes[0].abstract_mesh.abstract_device.device_kind == jax.devices()[0].device_kind
    with pallasim.emulate("tpu-v5e"):
        meshes.append(jax.make_mesh((1,), ("made_inside",), axis_types=(jax.sharding.AxisType.Auto,)))
        assert meshes[1].abstract_mesh.abstract_device.device_kind == "TPU v5 lite"
    seen = []

    def ask(x):
        seen.append((pltpu.get_tpu_info().generation, pltpu.create_tensorcore_mesh("core").shape["core"]))
        return x

    for mesh in meshes:
        with pallasim.emulate("tpu-v5p"):
            spec = jax.sharding.PartitionSpec(mesh.axis_names[0])
            jax.jit(jax.shard_map(ask, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))(np.ones(1, np.float32))
    assert seen == [(5, 2)] * 2
