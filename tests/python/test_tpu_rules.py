"""Rules of the TPU's compiler: what JAX's own lowering for TPUs refuses (it needs no TPU) we refuse, and nothing else."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim
from pallasim._capture import jaxver

F32, BF16, I32 = jnp.float32, jnp.bfloat16, jnp.int32
SMEM, HBM, ANY = (pl.BlockSpec(memory_space=s) for s in (pltpu.SMEM, pltpu.HBM, pl.ANY))


def shape(*dims, dtype=F32):
    return jax.ShapeDtypeStruct(dims, dtype)


def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def blocks(array, block, dtype=F32, index_map=None, grid=None, space=None, **spec):
    """A kernel that copies an array block by block."""
    rank = len(array)
    index_map = index_map or (lambda i: (i,) + (0,) * (rank - 1))
    first = block[0] if isinstance(block[0], int) else 1
    spec = pl.BlockSpec(block, index_map, memory_space=space, **spec)
    call = pl.pallas_call(copy_kernel, out_shape=shape(*array, dtype=dtype), in_specs=[spec], out_specs=spec,
                          grid=(pl.cdiv(array[0], first),) if grid is None else grid)
    return call, [shape(*array, dtype=dtype)]


def body(kernel, *inputs, out=None, **kwargs):
    """One launch on whole arrays."""
    return pl.pallas_call(kernel, out_shape=shape(16, 128) if out is None else out, **kwargs), list(inputs or [shape(16, 128)])


def value(f, *inputs, out=None, **kwargs):
    """A kernel that stores f of its inputs."""
    ins = list(inputs or [shape(16, 128)])
    out = jax.eval_shape(f, *ins) if out is None else out

    def kernel(*refs):
        refs[-1][...] = f(*[r[...] for r in refs[:-1]])

    return body(kernel, *ins, out=out, **kwargs)


def dot(x, y, **kw):
    return lax.dot_general(x, y, (((1,), (0,)), ((), ())), **kw)


def scratch(kernel, *types, out=None):
    return body(kernel, out=out, scratch_shapes=types)


def reads(index):
    def kernel(x_ref, o_ref):
        v = x_ref[index]
        o_ref[...] = jnp.broadcast_to(v.reshape(-1)[:1], o_ref.shape)

    return kernel


def fill(f):
    """A kernel that does something with its refs, and whose output needs the result, where there is one."""
    def kernel(*refs):
        v = f(*refs)
        zero = jnp.zeros(refs[1].shape, refs[1].dtype)
        refs[1][...] = zero if v is None else zero + v.reshape(-1)[:1].astype(zero.dtype)

    return kernel


def copied(src, dst, dtype=F32, **kw):
    def kernel(x_ref, o_ref, sem):
        copy = pltpu.make_async_copy(src(x_ref), dst(o_ref), sem)
        copy.start(**kw)
        copy.wait()

    return body(kernel, shape(16, 128, dtype=dtype), out=shape(16, 128, dtype=dtype), in_specs=[HBM], out_specs=HBM,
                scratch_shapes=[pltpu.SemaphoreType.DMA(())])


def drawn(key_ref, o_ref):
    o_ref[...] = jax.random.uniform(key_ref[0], o_ref.shape)


def signalled(decrement):
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 1)
        pl.semaphore_wait(sem, 1, decrement=decrement)
        o_ref[...] = x_ref[...]

    return kernel


def barrier_kernel(x_ref, o_ref):
    barrier = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(barrier, 1)
    pl.semaphore_wait(barrier, 1)
    o_ref[...] = x_ref[...]


def identified(n):
    return dict(compiler_params=pltpu.CompilerParams(collective_id=n))


def on_mesh(signal):
    """A kernel on a mesh of one core that signals itself."""
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 1, **signal)
        pl.semaphore_wait(sem, 1)
        pltpu.sync_copy(x_ref, o_ref)

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)
    return pl.kernel(kernel, shape(16, 128), mesh=mesh, scratch_types=[pltpu.SemaphoreType.REGULAR]), [shape(16, 128)]


def whole(ref):
    return ref


BLOCKS = {
    "aligned": (None, lambda: blocks((64, 256), (8, 128), index_map=lambda i: (i, 1))),
    "whole rows": (None, lambda: blocks((64, 100), (8, 100))),
    "whole array": (None, lambda: blocks((6, 100), (6, 100))),
    "one row": ("PS-TPU-001", lambda: blocks((6, 128), (1, 128))),
    "64 lanes": ("PS-TPU-001", lambda: blocks((64, 128), (8, 64))),
    "4 rows of bf16": ("PS-TPU-001", lambda: blocks((64, 128), (4, 128), BF16)),
    "32 rows of i8": (None, lambda: blocks((64, 128), (32, 128), jnp.int8)),
    "8 of 24 rows of i8": (None, lambda: blocks((24, 128), (8, 128), jnp.int8)),
    "squeezed leading dimension": (None, lambda: blocks((4, 8, 128), (None, 8, 128))),
    "squeezed rows": ("PS-TPU-001", lambda: blocks((8, 128), (None, 128))),
    "rank 1, multiple of 1024": (None, lambda: blocks((8192,), (2048,))),
    "rank 1, power of two": (None, lambda: blocks((8192,), (128,))),
    "rank 1, too small": ("PS-TPU-001", lambda: blocks((8192,), (64,))),
    "rank 1, 128 of bf16": ("PS-TPU-001", lambda: blocks((8192,), (128,), BF16)),
    "rank 1, 384": ("PS-TPU-001", lambda: blocks((8192,), (384,))),
    "window in HBM": ("PS-TPU-001", lambda: blocks((64, 128), (8, 128), space=pltpu.HBM)),
    "window in ANY": ("PS-TPU-001", lambda: blocks((64, 128), (8, 128), space=pl.ANY)),
    "window without a grid": ("PS-TPU-001", lambda: blocks((64, 128), (8, 128), index_map=lambda: (1, 0), grid=())),
    "Elements": (None, lambda: blocks((64, 128), (pl.Element(8), pl.Element(128)), grid=(8,), index_map=lambda i: (8 * i, 0))),
    "Elements and blocks": ("PS-TPU-001", lambda: blocks((64, 128), (pl.Element(8), 128), grid=(8,), index_map=lambda i: (8 * i, 0))),
    "one buffer": (None, lambda: blocks((64, 128), (8, 128), pipeline_mode=pl.Buffered(1))),
    "bounded slice": ("PS-TPU-001", lambda: blocks((64, 128), (pl.BoundedSlice(8), 128), grid=(8,), index_map=lambda i: (pl.ds(8 * i, 8), 0))),
    "three buffers": ("PS-TPU-001", lambda: blocks((64, 128), (8, 128), pipeline_mode=pl.Buffered(3))),
    "lookahead": ("PS-TPU-001", lambda: blocks((64, 128), (8, 128), pipeline_mode=pl.Buffered(2, use_lookahead=True))),
    "scalar in VMEM": ("PS-TPU-001", lambda: body(fill(lambda *_: None), shape())),
    "scalar in SMEM": (None, lambda: body(fill(lambda s, o: None), shape(), in_specs=[SMEM])),
    "semantics of another length": ("PS-TPU-002", lambda: body(copy_kernel, grid=(2,), compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")))),
    "barrier": (None, lambda: body(barrier_kernel, **identified(3))),
    "barrier without an id": ("PS-TPU-002", lambda: body(barrier_kernel)),
    "id without a barrier": ("PS-TPU-002", lambda: body(copy_kernel, **identified(3))),
    "semantics": (None, lambda: body(copy_kernel, grid=(2,), compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)))),
}

OPERATIONS = {
    "exp": (None, lambda: value(jnp.exp)),
    "sinh": ("PS-TPU-003", lambda: value(lax.sinh)),
    "acos": ("PS-TPU-003", lambda: value(lax.acos)),
    "cbrt": ("PS-TPU-003", lambda: value(lax.cbrt)),
    "expm1": ("PS-TPU-003", lambda: value(lax.expm1)),
    "lgamma": ("PS-TPU-003", lambda: value(lax.lgamma)),
    "erfc": ("PS-TPU-003", lambda: value(lax.erfc)),
    "cumsum": ("PS-TPU-003", lambda: value(lambda x: lax.cumsum(x, 1))),
    "sort": ("PS-TPU-003", lambda: value(lax.sort)),
    "rev": ("PS-TPU-003", lambda: value(lambda x: lax.rev(x, (0,)))),
    "dynamic_slice": ("PS-TPU-003", lambda: value(lambda x: lax.dynamic_slice(x, (x[0, 0].astype(I32), 0), (8, 128)))),
    "scatter": ("PS-TPU-003", lambda: value(lambda x: x.at[jnp.zeros((3,), I32)].set(1.0))),
    "reduce_prod": ("PS-TPU-003", lambda: value(lambda x: lax.reduce_prod(x, (0,)))),
    "reduce_precision": ("PS-TPU-003", lambda: value(lambda x: lax.reduce_precision(x, 5, 10))),
    "sum": (None, lambda: value(lambda x: lax.reduce_sum(x, (1,)))),
    "max of i32": (None, lambda: value(lambda x: lax.reduce_max(x, (1,)), shape(16, 128, dtype=I32))),
    "max of u32": ("PS-TPU-003", lambda: value(lambda x: lax.reduce_max(x, (1,)), shape(16, 128, dtype=jnp.uint32))),
    "max of i16": ("PS-TPU-003", lambda: value(lambda x: lax.reduce_max(x, (1,)), shape(16, 128, dtype=jnp.int16))),
    "argmax": (None, lambda: value(lambda x: lax.argmax(x, 1, I32))),
    "argmax of bf16": ("PS-TPU-003", lambda: value(lambda x: lax.argmax(x, 1, I32), shape(16, 128, dtype=BF16))),
    "dot": (None, lambda: value(dot, shape(16, 128), shape(128, 128))),
    "dot HIGHEST": (None, lambda: value(lambda x, y: dot(x, y, precision=lax.Precision.HIGHEST), shape(16, 128), shape(128, 128))),
    "dot HIGH": ("PS-TPU-003", lambda: value(lambda x, y: dot(x, y, precision=lax.Precision.HIGH), shape(16, 128), shape(128, 128))),
    "strided slice": ("PS-TPU-003", lambda: value(lambda x: lax.slice(x, (0, 0), (16, 128), (2, 1)))),
    "slice from 3 on": (None, lambda: value(lambda x: lax.slice(x, (1, 3), (9, 100)))),
    "reduce_and of i32": ("PS-TPU-003", lambda: value(lambda x: lax.reduce_and(x, (0,)), shape(8, 128, dtype=I32))),
    "reduce_or of bool": (None, lambda: value(lambda x: lax.reduce_or(x > 0, (0,)).astype(I32), shape(8, 128, dtype=I32))),
    "dot of u8": ("PS-TPU-003", lambda: value(lambda x, y: dot(x, y, preferred_element_type=I32), shape(16, 128, dtype=jnp.uint8), shape(128, 128, dtype=jnp.uint8))),
    "dot of i8": (None, lambda: value(lambda x, y: dot(x, y, preferred_element_type=I32), shape(16, 128, dtype=jnp.int8), shape(128, 128, dtype=jnp.int8))),
    "dot into f16": ("PS-TPU-003", lambda: value(lambda x, y: dot(x, y, preferred_element_type=jnp.float16).astype(F32), shape(16, 128, dtype=BF16), shape(128, 128, dtype=BF16))),
    "convert": (None, lambda: value(lambda x: x.astype(BF16))),
    "select_n of three": ("PS-TPU-003", lambda: value(lambda i, x: lax.select_n(i, x, x, x), shape(16, 128, dtype=I32), shape(16, 128))),
    "popcount": (None, lambda: value(lax.population_count, shape(16, 128, dtype=I32))),
    "bitcast": (None, lambda: value(lambda x: lax.bitcast_convert_type(x, I32))),
    "bitcast to another width": ("PS-TPU-003", lambda: value(lambda x: lax.bitcast_convert_type(x, jnp.int16))),
    "reciprocal": (None, lambda: value(lambda x: pl.reciprocal(x, approx=True))),
    "reciprocal of bf16": ("PS-TPU-003", lambda: value(lambda x: pl.reciprocal(x, approx=True), shape(16, 128, dtype=BF16))),
    "pad": (None, lambda: value(lambda x: jnp.pad(x, ((0, 8), (0, 0))))),
    "pad between": ("PS-TPU-003", lambda: value(lambda x: lax.pad(x, 0.0, ((0, 0, 1), (0, 0, 0))))),
    "take_along_axis": (None, lambda: value(lambda x, i: jnp.take_along_axis(x, i, 0), shape(8, 128), shape(8, 128, dtype=I32))),
    "take": ("PS-TPU-003", lambda: value(lambda x, i: jnp.take(x, i, 0), shape(8, 128), shape(8, dtype=I32))),
    "reverse scan": ("PS-TPU-003", lambda: body(fill(lambda x, o: lax.scan(lambda c, _: (c + x[:8], None), x[8:], None, length=3, reverse=True)[0]))),
    "print of i32": (None, lambda: body(fill(lambda x, o: pl.debug_print("x {}", pl.cdiv(x.shape[0], 3) + x[0, 0].astype(I32))))),
    "print of f32": ("PS-TPU-003", lambda: body(fill(lambda x, o: pl.debug_print("x {}", x[0, 0])))),
    "print of f32 behind": (None, lambda: body(fill(lambda x, o: pl.debug_print("x", x[0, 0])))),
    "print of an array": (None, lambda: body(fill(lambda x, o: pl.debug_print("x {}", x[:8])))),
    "print of an array inside": ("PS-TPU-003", lambda: body(fill(lambda x, o: pl.debug_print("x {}!", x[:8])))),
    "check": ("PS-TPU-003", lambda: body(fill(lambda x, o: checkify.check(x[0, 0] > 0, "no")))),
    "debug check": (None, lambda: body(fill(lambda x, o: pl.debug_check(x[0, 0] > 0, "no")))),
    "key of words": ("PS-TPU-003", lambda: body(fill(lambda x, o: jax.random.bits(jax.random.wrap_key_data(jnp.full((1, 2), 3, jnp.uint32), impl="pallas_tpu"), (8, 128)).astype(I32)),
                                                out=shape(8, 128, dtype=I32))),
    "words of a key": ("PS-TPU-003", lambda: body(fill(lambda x, o: jax.random.key_data(x[0]).astype(F32)),
                                                  jax.eval_shape(lambda: pltpu.to_pallas_key(jax.random.key(0))[None]), in_specs=[SMEM])),
    "print of two arrays": ("PS-TPU-003", lambda: body(fill(lambda x, o: pl.debug_print("x {} {}", x[:8], x[8:])))),
}

ACCESSES = {
    "slices": (None, lambda: body(reads((pl.ds(0, 8), slice(None))))),
    "strided": (None, lambda: body(reads((pl.ds(0, 4, 2), slice(None))))),
    "array index": ("PS-TPU-005", lambda: body(fill(lambda x, o: x[x[0].astype(I32)[:8]]))),
    "strided view": ("PS-TPU-005", lambda: body(fill(lambda x, o: x.at[pl.ds(0, 4, 2)][pl.ds(0, 2)]))),
    "load from HBM": ("PS-TPU-005", lambda: body(reads(...), in_specs=[HBM])),
    "load from ANY": ("PS-TPU-005", lambda: body(reads(...), in_specs=[ANY])),
    "store to HBM": ("PS-TPU-005", lambda: body(copy_kernel, out_specs=HBM)),
    "scalar from SMEM": (None, lambda: body(fill(lambda x, o: x[0, 0]), in_specs=[SMEM])),
    "vector from SMEM": ("PS-TPU-005", lambda: body(copy_kernel, in_specs=[SMEM])),
    "scalar to SMEM": (None, lambda: scratch(fill(lambda x, o, s: s.__setitem__(0, 1)), pltpu.SMEM((4,), I32))),
    "scalar to VMEM": ("PS-TPU-005", lambda: body(fill(lambda x, o: o.__setitem__((0, 0), 1.0)))),
    "masked load": ("PS-TPU-005", lambda: body(fill(lambda x, o: pltpu.load(x, mask=x[...] > 0)))),
    "masked store": (None, lambda: body(fill(lambda x, o: pltpu.store(o, x[...], mask=x[...] > 0)))),
    "masked store of bf16": ("PS-TPU-005", lambda: body(fill(lambda x, o: pltpu.store(o, x[...], mask=x[...] > 0)), shape(16, 128, dtype=BF16), out=shape(16, 128, dtype=BF16))),
    "key in VMEM": (None, lambda: body(drawn, jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32")[None]), out=shape(8, 128))),
    "key of the TPU in VMEM": ("PS-TPU-005", lambda: body(drawn, jax.eval_shape(lambda: pltpu.to_pallas_key(jax.random.key(0))[None]), out=shape(8, 128))),
    "key of the TPU in SMEM": (None, lambda: body(drawn, jax.eval_shape(lambda: pltpu.to_pallas_key(jax.random.key(0))[None]), out=shape(8, 128), in_specs=[SMEM])),
    "reshaped view": (None, lambda: body(fill(lambda x, o: x.reshape(32, 64)[...]))),
    "reshaped line": ("PS-TPU-005", lambda: body(fill(lambda x, o: x.reshape(8, 128)[...]), shape(1024))),
    "bitcast view": (None, lambda: body(fill(lambda x, o: x.bitcast(jnp.int16)[...]))),
    "transposed view": ("PS-TPU-005", lambda: copied(lambda x: x.at[pl.ds(0, 16), pl.ds(0, 16)].transpose((1, 0)), lambda o: o.at[pl.ds(0, 16), pl.ds(0, 16)])),
    "copy": (None, lambda: copied(whole, whole)),
    "copy of bool": ("PS-TPU-006", lambda: copied(whole, whole, jnp.bool_)),
    "copy that adds": ("PS-TPU-006", lambda: copied(whole, whole, add=True)),
    "copy of a strided view": ("PS-TPU-005", lambda: copied(lambda x: x.at[pl.ds(0, 8, 2)], lambda o: o.at[pl.ds(0, 8)])),
    "device id": (None, lambda: on_mesh(dict(device_id={"core": 0}))),
    "device id on no axis": ("PS-TPU-006", lambda: on_mesh(dict(device_id={"elsewhere": 0}))),
    "core index": (None, lambda: on_mesh(dict(core_index=0))),
    "core index and device id": ("PS-TPU-006", lambda: on_mesh(dict(device_id={"core": 0}, core_index=0))),
    "wait": (None, lambda: scratch(signalled(True), pltpu.SemaphoreType.REGULAR)),
}


CASES = BLOCKS | OPERATIONS | ACCESSES


def refusal(f, inputs, **lowering):
    """What refused the kernel, None where nothing did."""
    try:
        jax.jit(f).trace(*inputs).lower(**lowering)
    except Exception as e:  # JAX's lowering raises ValueError, NotImplementedError, TypeError and its own classes
        return e
    return None


# What JAX 0.10 refuses and later ones compile.
LIFTED = {"reduce_precision", "argmax of bf16", "dot HIGH", "reciprocal of bf16", "print of f32", "copy of bool"}


@pytest.mark.parametrize("name", CASES)
def test_we_refuse_what_jax_refuses_for_tpus(name):
    code, make = CASES[name]
    if name in LIFTED and jaxver.JAX_VERSION >= (0, 11):
        code = None
    f, inputs = make()
    with pallasim.emulate("tpu-v5e"):
        theirs = refusal(f, inputs, lowering_platforms=("tpu",))
        ours = refusal(f, inputs)
    assert (theirs is not None) == (code is not None), repr(theirs)
    if code is None:
        assert ours is None, ours
    else:
        assert isinstance(ours, pallasim.KernelError) and ours.finding.code == code, repr(ours)


def strided(index, dims=(16, 128), dtype=F32):
    return body(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[index]), shape(*dims, dtype=dtype), out=jax.eval_shape(lambda x: x[index], shape(*dims, dtype=dtype)))


def part(index, dims, dtype=F32):
    """A copy of a part of an array in HBM."""
    out = jax.eval_shape(lambda x: x[index], shape(*dims, dtype=dtype))
    return body(lambda x_ref, o_ref: pltpu.sync_copy(x_ref.at[index], o_ref), shape(*dims, dtype=dtype), out=out, in_specs=[HBM])


def scalars(f, dtype):
    def kernel(x_ref, o_ref):
        o_ref[0] = f(x_ref[0])

    return pl.pallas_call(kernel, out_shape=shape(1, dtype=dtype), in_specs=[SMEM], out_specs=SMEM), [shape(1, dtype=dtype)]


def narrow(f, dtype):
    return value(f, shape(64, 128, dtype=dtype))


# What the lowering takes and the compiler behind it does not, and what comes close: libtpu 0.0.42, asked by tests/tpu_compiler.
COMPILER = {
    "max of i8": ("PS-TPU-004", lambda: narrow(lambda x: jnp.maximum(x, x & 3), jnp.int8)),
    "max of a value and itself": (None, lambda: narrow(lambda x: jnp.maximum(x, x), jnp.int8)),
    "sum of i8": ("PS-TPU-004", lambda: narrow(lambda x: x + x, jnp.int8)),
    "fold of f8": ("PS-TPU-003", lambda: narrow(lambda x: lax.reduce_max_p.bind(x, axes=(0,), out_sharding=None), jnp.float8_e5m2)),
    "sum of i16": (None, lambda: narrow(lambda x: x + x, jnp.int16)),
    "and of i8": (None, lambda: narrow(lambda x: x & x, jnp.int8)),
    "exp of bf16": (None, lambda: narrow(jnp.exp, BF16)),
    "f16": ("PS-TPU-004", lambda: narrow(lambda x: x, jnp.float16)),
    "f8e5m2fnuz": ("PS-TPU-004", lambda: narrow(lambda x: x, jnp.float8_e5m2fnuz)),
    "f8e5m2": (None, lambda: narrow(lambda x: x, jnp.float8_e5m2)),
    "sum of i8 scalars": ("PS-TPU-004", lambda: scalars(lambda x: x + x, jnp.int8)),
    "sum of bf16 scalars": ("PS-TPU-004", lambda: scalars(lambda x: x + x, BF16)),
    "sum of i32 scalars": (None, lambda: scalars(lambda x: x + x, I32)),
    "8 of 64 rows of i8": ("PS-TPU-001", lambda: blocks((64, 128), (8, 128), jnp.int8)),
    "32 of 64 rows of i4": ("PS-TPU-001", lambda: blocks((64, 128), (32, 128), jnp.int4)),
    "every second row": (None, lambda: strided(slice(0, 8, 2))),
    "every second row of 256": ("PS-TPU-005", lambda: strided(slice(0, 8, 2), (16, 256))),
    "every second row of bf16": ("PS-TPU-005", lambda: strided(slice(0, 8, 2), dtype=BF16)),
    "every second column": ("PS-TPU-005", lambda: strided((slice(None), slice(0, 64, 2)))),
    "a copy of rows 3 to 5": (None, lambda: part(slice(3, 5), (64, 256))),
    "a copy of rows 3 to 11": ("PS-TPU-006", lambda: part(slice(3, 11), (64, 256))),
    "a copy of rows 3 to 11 of 128": (None, lambda: part(slice(3, 11), (64, 128))),
    "a copy of row 3 of bf16": ("PS-TPU-006", lambda: part(slice(3, 4), (64, 256), BF16)),
    "a copy of rows 2 to 4 of bf16": (None, lambda: part(slice(2, 4), (64, 256), BF16)),
    "a copy of the last rows": (None, lambda: part(slice(16, 20), (20, 256), BF16)),
    "a copy of 64 columns": ("PS-TPU-006", lambda: part((slice(None), slice(0, 64)), (8, 256))),
    "a copy of the last columns": (None, lambda: part((slice(None), slice(256, 300)), (8, 300))),
    "a copy of 128 of a line": (None, lambda: part(slice(128, 256), (512,))),
    "a copy of 128 of a line of bf16": ("PS-TPU-006", lambda: part(slice(128, 256), (512,), BF16)),
}
# What the compiler of a later JAX takes (libtpu 0.0.52).
COMPILED_LATER = {"8 of 64 rows of i8", "32 of 64 rows of i4", "every second row of bf16"}


@pytest.mark.parametrize("name", COMPILER)
def test_we_refuse_what_the_compiler_refuses(name):
    code, make = COMPILER[name]
    if name in COMPILED_LATER and jaxver.JAX_VERSION >= (0, 11):
        code = None
    f, inputs = make()
    with pallasim.emulate("tpu-v5e"):
        assert refusal(f, inputs, lowering_platforms=("tpu",)) is None
        ours = refusal(f, inputs)
    assert (ours and ours.finding.code) == code, repr(ours)


def test_an_operation_that_a_chip_has_not_runs_without_its_rules():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.cbrt(x_ref[...])

    x = jnp.arange(1024, dtype=F32).reshape(8, 128)
    f = pl.pallas_call(kernel, out_shape=x)
    with pytest.raises(pallasim.RefusedError) as e, pallasim.emulate("tpu-v5e"):
        f(x)
    assert e.value.finding.code == "PS-TPU-003" and "cbrt" in e.value.finding.report
    with pallasim.emulate("tpu-v5e", rules=False):
        free = np.asarray(f(x))
    with pallasim.emulate():
        np.testing.assert_array_equal(free, f(x))
    np.testing.assert_allclose(free, np.cbrt(x), rtol=1e-6)


def test_rules_can_be_findings_or_off():
    f, inputs = blocks((6, 128), (1, 128))
    x = jnp.arange(6 * 128, dtype=F32).reshape(6, 128) + 1
    pallasim.findings()
    with pallasim.emulate("tpu-v5e", rules=False):
        np.testing.assert_array_equal(f(x), x)
    assert pallasim.findings() == []
    with pallasim.emulate("tpu-v5e", rules="warn"):
        np.testing.assert_array_equal(f(x), x)
    found = pallasim.findings()
    assert {(d.code, d.severity) for d in found} == {("PS-TPU-001", "warning")} and len(found) == 2  # the input's blocks and the output's
    with pallasim.emulate():  # generic refuses nothing that has a meaning
        np.testing.assert_array_equal(f(x), x)
    with pytest.raises(ValueError, match="rules"):
        pallasim.Params(rules="loud")


def test_warnings_are_findings_of_a_run():
    f, inputs = scratch(signalled(False), pltpu.SemaphoreType.REGULAR)
    pallasim.findings()
    with pytest.raises(pallasim.KernelError, match="PS-SEM-002"), pallasim.emulate("tpu-v5e"):  # the count stays, as asked
        jax.block_until_ready(f(jnp.ones((16, 128))))
    pallasim.findings()
    f, inputs = value(lambda x, y: dot(x, y, preferred_element_type=F32), shape(16, 128, dtype=jnp.float8_e4m3fn), shape(128, 128, dtype=jnp.float8_e4m3fn))
    with pallasim.emulate("tpu-v6e"):
        out = jax.block_until_ready(f(*(jnp.ones(s.shape, s.dtype) for s in inputs)))
    assert np.asarray(out).min() == 128
    assert [(d.code, d.severity) for d in pallasim.findings()] == [("PS-TPU-004", "warning")]


def window(x_index, array=(32, 512), block=(8, 128), dtype=F32, copies=False):
    """A kernel that takes a block of an array at a place that depends on the grid point."""
    def kernel(x_ref, o_ref):
        if copies:
            pltpu.sync_copy(x_ref.at[x_index(pl.program_id(0))], o_ref)
        else:
            o_ref[...] = x_ref[x_index(pl.program_id(0))]

    f = pl.pallas_call(kernel, out_shape=shape(*block, dtype=dtype), grid=(2,), in_specs=[HBM if copies else pl.BlockSpec()])
    return f, jnp.ones(array, dtype)


@pytest.mark.parametrize("wanted, make", [
    (128, lambda: window(lambda i: (slice(0, 8), pl.ds(64 * i, 128)))),
    (None, lambda: window(lambda i: (slice(0, 8), pl.ds(128 * i, 128)))),
    (None, lambda: window(lambda i: (slice(0, 8), pl.ds(128 * (i + 1) - 128, 128)))),
    (None, lambda: window(lambda i: (slice(0, 8), pl.ds(pl.multiple_of(64 * i * 2, 128), 128)))),
    (None, lambda: window(lambda i: (pl.ds(i, 8), slice(None)), (16, 128))),
    (None, lambda: window(lambda i: (pl.ds(i, 1), slice(0, 128)), block=(1, 128))),
    (8, lambda: window(lambda i: (pl.ds(i, 8), slice(0, 128)))),
    (8, lambda: window(lambda i: (pl.ds(i, 8), slice(0, 128)), dtype=BF16)),
    (32, lambda: window(lambda i: (pl.ds(8 * i, 8), slice(0, 128)), (64, 512), dtype=jnp.int8)),
    (None, lambda: window(lambda i: (pl.ds(8 * i, 8), slice(0, 128)), dtype=BF16)),
    (128, lambda: window(lambda i: (slice(0, 8), pl.ds(i, 128)), copies=True)),
    (None, lambda: window(lambda i: (slice(0, 8), pl.ds(256 * i, 128)), copies=True)),
    (None, lambda: window(lambda i: (pl.ds(128 * i, 128),), (512,), (128,))),
    (128, lambda: window(lambda i: (pl.ds(64 * i, 128),), (512,), (128,))),  # jax issue 36770
    (256, lambda: window(lambda i: (pl.ds(128 * i, 128),), (512,), (128,), dtype=BF16)),
    (2, lambda: window(lambda i: (pl.ds(i, 2), slice(None)), (16, 256), (2, 256), copies=True)),
    (4, lambda: window(lambda i: (pl.ds(2 * i, 4), slice(None)), (16, 256), (4, 256), dtype=BF16, copies=True)),
    (None, lambda: window(lambda i: (pl.ds(2 * i, 2), slice(None)), (16, 256), (2, 256), dtype=BF16, copies=True)),
    (None, lambda: window(lambda i: (i, slice(None), slice(None)), (4, 8, 128))),
])
def test_where_slices_begin(wanted, make):
    f, x = make()
    pallasim.findings()
    with pallasim.emulate("tpu-v5e"):
        jax.block_until_ready(f(x))
    found = pallasim.findings()
    if wanted is None:
        assert found == []
    else:
        assert [(d.code, d.severity) for d in found] == [("PS-TPU-007", "warning")] and f"is a multiple of {wanted}" in found[0].message


def test_semaphores_may_be_left_unchecked():
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 1)
        o_ref[...] = x_ref[...]

    def call(unchecked):
        params = pltpu.CompilerParams(disable_semaphore_checks=unchecked)
        f, _ = body(kernel, scratch_shapes=[pltpu.SemaphoreType.REGULAR], compiler_params=params)
        with pallasim.emulate("tpu-v5e"):
            return np.asarray(f(jnp.ones((16, 128))))

    np.testing.assert_array_equal(call(True), 1)
    with pytest.raises(pallasim.KernelError, match="PS-SEM-002"):
        call(False)


def test_what_a_generation_lacks():
    f, inputs = value(lambda x, y: dot(x, y, preferred_element_type=I32), shape(16, 128, dtype=jnp.int8), shape(128, 128, dtype=jnp.int8))
    with pallasim.emulate("tpu-v4"):
        error = refusal(f, inputs)
    assert error.finding.code == "PS-TPU-003" and "needs a TPU of generation 5" in str(error)
    with pallasim.emulate("tpu-v6e"):
        assert refusal(f, inputs) is None


@pytest.mark.parametrize("chip, fits", [("tpu-v4", False), ("tpu-v5e", True)])
def test_capacities_are_the_chips(chip, fits):
    f, inputs = blocks((8192, 1024), (2048, 1024), index_map=lambda i: (i, 0))
    with pallasim.emulate(chip):
        error = refusal(f, inputs)
    if fits:
        assert error is None
        return
    assert error.finding.code == "PS-MEM-001" and "33554432 bytes are needed, a TensorCore of tpu-v4 has 16777216" in error.finding.message
    table = "\n".join(error.finding.numbers)
    assert "x_ref" in table and "o_ref" in table and "8388608" in table and "input window" in table


def test_the_kernels_own_limit():
    f, inputs = body(copy_kernel, compiler_params=pltpu.CompilerParams(vmem_limit_bytes=256))
    with pallasim.emulate("tpu-v6e"):
        error = refusal(f, inputs)
    assert error.finding.code == "PS-MEM-001" and "vmem_limit_bytes allows 256" in error.finding.message
