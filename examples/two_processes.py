"""A sketch: a ring of eight devices in two processes, four in each, joined by shared memory, with one clock.

    .venv/bin/python examples/two_processes.py

A process of JAX has so many devices; kernels that communicate find each other in its memory. Past that, a program is cut where it is cut already: between
launches. Each process emulates its own devices; what would cross a link between them crosses in shared memory when a launch is over, with the time at
which it was sent. A launch takes what is predicted for the chip. Nothing that is sent at time t arrives before t and the latency of a link, so a process
that has heard "t" from a neighbour may go on until then without waiting for it: the latency is its lookahead. docs/scale.md says where this ends.
"""
from __future__ import annotations

import multiprocessing as mp
import time
from dataclasses import dataclass
from multiprocessing import shared_memory

import numpy as np

PROCESSES, DEVICES, ROWS, WIDTH, STEPS = 2, 4, 16, 128, 5
CHIP = "tpu-v5e"


# --- a link: one row at a time, with its time -----------------------------------------------------------------------------
class Link:
    """One way, between two processes: a row of float32 and the moment at which it was sent. Holds one row; a second one waits until that was taken."""

    def __init__(self, memory: str, empty: object, full: object) -> None:
        self.memory, self.empty, self.full = memory, empty, full

    @staticmethod
    def made(context: mp.context.BaseContext, held: list[shared_memory.SharedMemory]) -> Link:
        held.append(shared_memory.SharedMemory(create=True, size=8 + 4 * WIDTH))
        return Link(held[-1].name, context.Semaphore(1), context.Semaphore(0))

    def open(self) -> Link:
        self._block = shared_memory.SharedMemory(self.memory)
        self._time = np.ndarray((), np.float64, self._block.buf)
        self._row = np.ndarray((1, WIDTH), np.float32, self._block.buf, 8)
        return self

    def send(self, at: float, row: np.ndarray) -> None:
        if not self.empty.acquire(timeout=60):
            raise TimeoutError("nobody takes the rows of this link")
        self._time[...] = at
        self._row[...] = row
        self.full.release()

    def receive(self) -> tuple[float, np.ndarray]:
        if not self.full.acquire(timeout=60):
            raise TimeoutError("no row comes over this link")
        at, row = float(self._time), self._row.copy()
        self.empty.release()
        return at, row

    def close(self) -> None:
        del self._time, self._row
        self._block.close()


# --- the devices of one process -------------------------------------------------------------------------------------------
def smooth(part, above, below):
    """Means of a row and those beside it. Rows of neighbours in the process come by remote copies, those of the other process are `above` and `below`."""
    import jax
    from jax import lax
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    logical = pl.DeviceIdType.LOGICAL

    def kernel(x_ref, above_ref, below_ref, o_ref, over, under, sent, came_over, came_under):
        me = lax.axis_index("x")
        left, right = lax.rem(me + DEVICES - 1, DEVICES), lax.rem(me + 1, DEVICES)
        ready = pltpu.get_barrier_semaphore()
        for neighbour in (left, right):
            pl.semaphore_signal(ready, 1, device_id=neighbour, device_id_type=logical)
        pl.semaphore_wait(ready, 2)
        up = pltpu.make_async_remote_copy(x_ref.at[pl.ds(0, 1)], under, sent, came_under, device_id=left, device_id_type=logical)
        down = pltpu.make_async_remote_copy(x_ref.at[pl.ds(ROWS - 1, 1)], over, sent, came_over, device_id=right, device_id_type=logical)
        up.start()
        down.start()
        o_ref[1 : ROWS - 1] = (x_ref[: ROWS - 2] + x_ref[1 : ROWS - 1] + x_ref[2:]) / 3
        down.wait_recv()
        up.wait_recv()
        first = lax.select(me == 0, above_ref[...], over[...])
        last = lax.select(me == DEVICES - 1, below_ref[...], under[...])
        o_ref[:1] = (first + x_ref[:1] + x_ref[1:2]) / 3
        o_ref[ROWS - 1 :] = (x_ref[ROWS - 2 : ROWS - 1] + x_ref[ROWS - 1 :] + last) / 3
        up.wait_send()
        down.wait_send()

    scratch = [pltpu.VMEM((1, WIDTH), part.dtype)] * 2 + [pltpu.SemaphoreType.DMA] * 3
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(part.shape, part.dtype), scratch_shapes=scratch,
                          compiler_params=pltpu.CompilerParams(collective_id=0))(part, above, below)


@dataclass
class Neighbour:
    """What a process knows of another one: rows that are on their way, and how late it is there at least."""
    link: Link
    delay: float  # of a row, from when it was sent; no row is faster
    heard: float = 0.0

    def row(self) -> tuple[float, np.ndarray]:
        at, row = self.link.receive()
        self.heard = at
        return at + self.delay, row

    def safe_until(self) -> float:
        """Before that nothing of it arrives that is not here."""
        return self.heard + self.delay


def one_process(me: int, x: np.ndarray, to: list[Link], of: list[Link], results: object) -> None:
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    from jax.sharding import Mesh, PartitionSpec as P

    import pallasim

    mesh = Mesh(np.array(jax.devices()), "x")
    f = jax.shard_map(smooth, mesh=mesh, in_specs=(P("x"), P(), P()), out_specs=P("x"), check_vma=False)
    edge = np.zeros((1, WIDTH), np.float32)
    launch = pallasim.predict(f, x, edge, edge, chip=CHIP, sensitivity=False)
    figures = {item.name: item.value for item in launch[0].figures}
    delay = figures["ici_latency"] + edge.nbytes / figures["ici_link_bandwidth"]
    up, down = (link.open() for link in to)
    neighbours = above, below = [Neighbour(link.open(), delay) for link in of]
    clock = waited = 0.0
    with pallasim.emulate(CHIP):
        step = jax.jit(f)
        for _ in range(STEPS):
            up.send(clock, x[:1])
            down.send(clock, x[-1:])
            (over_at, over), (under_at, under) = above.row(), below.row()
            begins = max(clock, over_at, under_at)
            if clock > min(n.safe_until() for n in neighbours):
                raise AssertionError("this process went further than what it has heard allows")
            waited += begins - clock
            x = np.asarray(step(x, over, under))
            clock = begins + launch.seconds
    results.put((me, x, clock, waited, pallasim.launch_count()))
    for link in (*to, *of):
        link.close()


def run(x: np.ndarray) -> tuple[np.ndarray, list[float], list[float]]:
    """The rows after STEPS steps, the clock of each process, and how long of that it waited for rows."""
    context = mp.get_context("spawn")
    results = context.Queue()
    held: list[shared_memory.SharedMemory] = []
    up = [Link.made(context, held) for _ in range(PROCESSES)]  # from each process to the one before it
    down = [Link.made(context, held) for _ in range(PROCESSES)]
    size = DEVICES * ROWS
    try:
        workers = []
        for p in range(PROCESSES):
            of = down[p - 1], up[(p + 1) % PROCESSES]
            workers.append(context.Process(target=one_process, args=(p, x[p * size : (p + 1) * size], [up[p], down[p]], list(of), results)))
            workers[-1].start()
        found = sorted((results.get(timeout=120) for _ in workers), key=lambda r: r[0])
        for w in workers:
            w.join()
    finally:
        for w in workers:
            w.kill()
        for block in held:
            block.close()
            block.unlink()
    assert all(launches == STEPS for *_, launches in found), "a process ran no kernel of its own"
    return np.concatenate([r[1] for r in found]), [r[2] for r in found], [r[3] for r in found]


def main() -> None:
    x = np.random.default_rng(0).standard_normal((PROCESSES * DEVICES * ROWS, WIDTH), dtype=np.float32)
    want = x
    for _ in range(STEPS):
        want = (np.roll(want, 1, 0) + want + np.roll(want, -1, 0)) / np.float32(3)
    start = time.perf_counter()
    got, clocks, waited = run(x)
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert np.abs(want).max() > 0.5
    assert clocks[0] == clocks[1] and 0 < waited[0] < clocks[0]
    print(f"{PROCESSES} processes with {DEVICES} devices each: a ring of {len(x)} rows, smoothed {STEPS} times")
    print(f"on {CHIP} it is {clocks[0] * 1e6:.1f} us later then, {waited[0] * 1e6:.1f} of them for rows on their way between the processes")
    print(f"here it took {time.perf_counter() - start:.1f} s, of which starting two processes of JAX is most")


if __name__ == "__main__":
    main()
