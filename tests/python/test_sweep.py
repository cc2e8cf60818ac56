"""pallasim.sweep: configurations on chips, in processes with limits, with a cache and a file of rows."""
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sweep_programs as programs
from jax.experimental import pallas as pl

import pallasim
from pallasim import _build, _judge, _many, _tasks, _workers

pytestmark = pytest.mark.one_jax

CHIP = "tpu-v5e"


def statuses(s):
    return {r.config: r.status for r in s.rows}


def test_each_question_in_its_order_and_the_best():
    s = pallasim.sweep(programs.double, [8, 16, 64, 12, "raise", "wrong", "race"], programs.X, chips=[CHIP], reference=programs.reference, jobs=0)
    assert statuses(s) == {8: "ok", 16: "ok", 64: "ok", 12: "refused", "raise": "error", "wrong": "wrong", "race": "findings"}
    best = s.best[CHIP]
    assert best.config == 64 and best.ratio == 1 and best.error == 0 and best.memories["vmem"][0] == 2 * 64 * 128 * 4  # one point: one slot
    by = {r.config: r for r in s.rows}
    assert by[8].ratio == by[8].seconds / best.seconds > 1 and by[8].why.startswith(f"{by[8].ratio:.2f} x the best: bound by {by[8].bound}")
    assert by["raise"].reason == "ValueError: 8 does not divide it" and by["raise"].seconds is None
    assert by["race"].code == "PS-PAR-001" and by["race"].line > 0
    assert "differs in 8,192 of 8,192 elements" in by["wrong"].reason and by["wrong"].seconds is None  # not predicted: it lost before
    assert by[12].kernels == ("double_kernel",) and by[12].code == "PS-TPU-001" and by[12].spent["running"] == 0  # nothing was computed


def test_shapes_are_predicted_only_and_chips_are_kept_apart():
    before = pallasim.launch_count()
    s = pallasim.sweep(programs.double, [8, 64], programs.SHAPE, chips=[CHIP, "tpu-v6e"], jobs=0)
    assert pallasim.launch_count() == before and not s.values
    assert [(r.config, r.chip) for r in s.rows] == [(8, CHIP), (8, "tpu-v6e"), (64, CHIP), (64, "tpu-v6e")]
    for chip in s.chips:
        alone = pallasim.predict(programs.double(64), programs.SHAPE, chip=chip)
        assert s.best[chip].config == 64 and s.best[chip].seconds == pytest.approx(alone.seconds)
    with pytest.raises(ValueError, match="needs arrays"):
        pallasim.sweep(programs.double, [8], programs.SHAPE, chips=[CHIP], values=True)
    with pytest.raises(ValueError, match="tpu-v5e"):
        pallasim.sweep(programs.double, [8], programs.SHAPE, chips=["tpu-v5"], jobs=0)


def test_what_stops_cannot_run_or_cannot_be_timed():
    def outside_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(pl.program_id(0) * 8 + 4, 8)]

    def unknown_kernel(x_ref, o_ref):
        o_ref[:, :64] = jax.lax.linalg.cholesky(x_ref[:, :64])

    def make(config):
        kernel, shape = {"outside": (outside_kernel, (8, 128)), "unknown": (unknown_kernel, (64, 128))}[config]
        return lambda x: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((64, 128), jnp.float32), grid=(64 // shape[0],),
                                        out_specs=pl.BlockSpec(shape, lambda i: (i, 0)))(x)

    s = pallasim.sweep(make, ["outside", "unknown"], programs.X, chips=[CHIP], jobs=0, options={"out_of_bounds": "error"})
    assert s.rows[0].status == "stopped" and s.rows[0].code.startswith("PS-OOB") and s.rows[0].text.strip().startswith("o_ref[...] = x_ref")
    assert s.rows[1].status == "unsupported" and "cholesky" in s.rows[1].reason
    untimed = pallasim.sweep(programs.double, [8], programs.SHAPE, chips=["generic"], jobs=0)
    assert untimed.rows[0].status == "untimed" and "no figures" in untimed.rows[0].reason


def memory_hog(config):
    return lambda x: programs.double(config["rows"])(x)


def test_combinations_memory_and_tables(tmp_path):
    big = jax.ShapeDtypeStruct((1 << 16, 128), jnp.float32)
    s = pallasim.sweep(memory_hog, {"rows": [64, 1 << 16], "other": ["a"]}, big, chips=["tpu-v4"], jobs=0)
    small, large = s.rows
    assert small.config == {"rows": 64, "other": "a"} and small.ok
    assert large.status == "memory" and large.code == "PS-MEM-001" and large.memories["vmem"][1] == 16 << 20 and large.hint
    text = str(s)
    assert text.startswith("tpu-v4: 2 configurations, 1 run; the best takes ") and "not taken, memory [PS-MEM-001]" in text and "rows=65536" in text
    assert "other" not in text.splitlines()[1]  # what does not differ
    head, first, second = s.csv().splitlines()
    assert head.startswith("rows,other,chip,status,seconds,ratio,bound,next,") and first.startswith(f"64,a,tpu-v4,ok,{small.seconds!r},1.0,")
    data = json.loads(s.json())
    assert data["pallasim_sweep"] == 1 and data["best"] == {"tpu-v4": 0} and data["rows"][1]["status"] == "memory"
    assert "<table" in s._repr_html_() and "65536" in s._repr_html_()
    pandas = pytest.importorskip("pandas")
    assert isinstance(s.to_pandas(), pandas.DataFrame) and list(s.to_pandas()["status"]) == ["ok", "memory"]
    pytest.importorskip("matplotlib").use("agg")
    s.plot(str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_what_hangs_dies_or_eats_memory_is_a_row():
    how = dict(chips=[CHIP], jobs=1)
    (hangs,) = pallasim.sweep(programs.double, ["hang"], programs.SHAPE, time_limit=2, **how).rows
    assert hangs.status == "time limit" and hangs.reason == "it took more than 2 s"
    s = pallasim.sweep(programs.double, ["die", "eat", 8], programs.SHAPE, time_limit=300, memory_limit=1 << 30, **how)
    assert statuses(s) == {"die": "died", "eat": "memory limit", 8: "ok"}
    assert "SIGSEGV" in s.rows[0].reason and "more than 1,024" in s.rows[1].reason
    here = pallasim.sweep(programs.double, [8], programs.SHAPE, chips=[CHIP], jobs=0)
    assert here.rows[0].seconds == s.rows[2].seconds and here.rows[0].why == s.rows[2].why


def test_cache_and_rows_of_a_file(tmp_path, monkeypatch):
    how = dict(chips=[CHIP], jobs=0, reference=programs.reference, cache=str(tmp_path / "cache"))
    first = pallasim.sweep(programs.double, [8, 64, "wrong"], programs.X, **how)
    again = pallasim.sweep(programs.double, [64, "wrong", 8], programs.X, **how)
    assert not any(r.cached for r in first.rows) and all(r.cached for r in again.rows)
    assert {r.config: (r.status, r.seconds, r.error) for r in first.rows} == {r.config: (r.status, r.seconds, r.error) for r in again.rows}
    other = pallasim.sweep(programs.double, [8], programs.X + 1, **how)
    assert not other.rows[0].cached  # other values
    assert not pallasim.sweep(programs.double, [8], programs.X, **how | {"chips": ["tpu-v6e"]}).rows[0].cached

    rows = str(tmp_path / "rows.jsonl")
    pallasim.sweep(programs.double, [8], programs.SHAPE, chips=[CHIP], jobs=0, resume=rows)
    with open(rows, "a") as file:
        file.write('{"row": "torn')
    asked = []
    monkeypatch.setattr(_judge, "judge", lambda program, config, chip, whole=_judge.judge: asked.append(config) or whole(program, config, chip))
    s = pallasim.sweep(programs.double, [8, 16], programs.SHAPE, chips=[CHIP], jobs=0, resume=rows)
    assert asked == [16] and [r.status for r in s.rows] == ["ok", "ok"]
    assert pallasim.sweep(programs.double, [8, 16], programs.SHAPE, chips=[CHIP], jobs=0, resume=rows).rows == s.rows and asked == [16]
    with pytest.raises(ValueError, match="of another sweep: its arguments"):
        pallasim.sweep(programs.double, [8], jax.ShapeDtypeStruct((128, 128), jnp.float32), chips=[CHIP], jobs=0, resume=rows)
    with pytest.raises(ValueError, match="repr"):
        pallasim.sweep(programs.double, [object()], programs.SHAPE, chips=[CHIP], jobs=0, resume=rows)


def test_what_cannot_be_sent_runs_here_and_says_so():
    lock = threading.Lock()

    def make(config):
        with lock:  # nobody pickles a lock
            return programs.double(config)

    s = pallasim.sweep(make, [8], programs.SHAPE, chips=[CHIP])
    assert s.rows[0].ok and "ran in this process, without limits" in s.notes[0] and s.notes[0] in str(s)
    with pytest.raises(TypeError):
        pallasim.sweep(make, [8], programs.SHAPE, chips=[CHIP], jobs=1)


def test_control_c_keeps_what_there_is(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""
        import sys
        import pallasim, sweep_programs as programs
        s = pallasim.sweep(programs.double, [8, 64, "hang"], programs.SHAPE, chips=["tpu-v5e"], jobs=1, resume=sys.argv[1])
        print(s.interrupted, s.left, [r.status for r in s.rows])
    """))
    rows = tmp_path / "rows.jsonl"
    process = subprocess.Popen([sys.executable, str(script), str(rows)], stdout=subprocess.PIPE, text=True, env=os.environ | {
        "PYTHONPATH": os.pathsep.join([os.path.dirname(programs.__file__), *filter(None, sys.path)])})
    until = time.monotonic() + 120
    while time.monotonic() < until and not (rows.exists() and len(rows.read_text().splitlines()) == 3):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out == "True 1 ['ok', 'ok']\n" and process.returncode == 0


# --- executors ------------------------------------------------------------------------------------------------------
def test_an_executor_gives_the_same(monkeypatch):
    alone = pallasim.sweep(programs.double, [8, 16, 64, "raise"], programs.X, chips=[CHIP], reference=programs.reference, jobs=0)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        s = pallasim.sweep(programs.double, [8, 16, 64, "raise"], programs.X, chips=[CHIP], reference=programs.reference, executor=threads)
    key = lambda s: [(r.config, r.status, r.reason, r.seconds, r.why, r.error) for r in s.rows]  # noqa: E731
    assert key(s) == key(alone)
    _workers.shared().close()
    monkeypatch.setattr(_workers, "_shared", None)


def test_a_worker_of_another_build_is_refused_by_name():
    program = _judge.Program(programs.double, (programs.SHAPE,), values=False)
    task = _tasks.make(_tasks.dumps(program), [(0, _tasks.dumps((8, CHIP)))], 0, 0)
    answer = _tasks.run(task | {"build": "0.0.9 (12345678)"})
    assert f"process {os.getpid()} has Pallasim {_build.build()}, who asks has 0.0.9 (12345678)" in answer["refused"]

    class Other(concurrent.futures.ThreadPoolExecutor):
        def submit(self, fn, task):
            return super().submit(fn, task | {"build": "0.0.9 (12345678)"})

    with Other(1) as other, pytest.raises(RuntimeError, match="install one build for both"):
        pallasim.sweep(programs.double, [8], programs.SHAPE, chips=[CHIP], executor=other)


class Losing(concurrent.futures.ThreadPoolExecutor):
    """Loses every other task when it comes first, and tells of all others twice."""

    seen: set[int] = set()

    def submit(self, fn, task):
        first = task["items"][0][0]
        if first % 2 == 0 and first not in self.seen:
            self.seen.add(first)
            future = concurrent.futures.Future()
            future.set_exception(OSError("the worker is gone"))
            return future
        return super().submit(lambda: {"outcomes": [(n, {"status": "ok", "n": n}) for n, _ in task["items"]] * 2})


def test_lost_tasks_run_again_and_nothing_counts_twice():
    told = []
    with Losing(2) as executor:
        assert not _many.run(dict, list(range(2000)), lambda n, o: told.append((n, o["n"])), executor=executor, jobs=0, seconds=0, most_bytes=0)
    assert sorted(told) == [(n, n) for n in range(2000)]
    told.clear()
    with Losing(2) as executor:
        executor.submit = lambda fn, task: _failed()
        _many.run(dict, [1], lambda n, o: told.append((n, o["status"], o["reason"])), executor=executor, jobs=0, seconds=0, most_bytes=0)
    assert told == [(0, "died", "OSError: always")]


def _failed():
    future = concurrent.futures.Future()
    future.set_exception(OSError("always"))
    return future


def test_a_worker_that_is_killed_loses_nothing():
    killed = []

    def kill(pool):
        while len(killed) < 3:
            time.sleep(0.5)
            for w in list(pool._all):
                if w.items > 1 and w.pid not in killed:
                    os.kill(w.pid, signal.SIGKILL)
                    killed.append(w.pid)

    pool = _workers.Pool()
    program = _tasks.dumps(_judge.Program(programs.double, (programs.SHAPE,), values=False))
    thread = threading.Thread(target=kill, args=(pool,), daemon=True)
    thread.start()
    n = 0
    while len(killed) < 2:
        task = _tasks.make(program, [(n, _tasks.dumps((8 << n % 4, CHIP)))], 0, 0)
        assert _tasks.run(task, pool)["outcomes"][0][1]["status"] == "ok"
        n += 1
    killed += [0]
    pool.close()
    with pytest.raises(_workers.Closed):
        _tasks.run(task, pool)


def test_comparison_by_type():
    a = np.linspace(-1, 1, 64, dtype=np.float32)
    assert _judge.compare([a], [a + 5e-5], None)[1] == ""
    assert "differs in 64 of 64 elements by up to 0.0002 of the largest (tolerance 0.0001)" in _judge.compare([a], [a + 2e-4], None)[1]
    assert _judge.compare([a], [a + 2e-4], 1e-3)[1] == ""
    assert _judge.compare([a.astype(jnp.bfloat16)], [a], None)[1] == ""  # of the narrower type
    assert _judge.compare([np.arange(4)], [np.array([0, 1, 2, 4])], None)[1].endswith("[3] is 3, the reference's 4")
    nan = np.array([np.nan, np.inf], np.float32)
    assert _judge.compare([nan], [nan], None) == (0.0, "") and _judge.compare([nan], [np.ones(2, np.float32)], None)[1]
    assert _judge.compare([a], [a, a], None)[1] == "1 results, the reference has 2"
    assert "shape [64]" in _judge.compare([a], [a[:32]], None)[1]


def test_explorations_by_an_executor_find_the_same(monkeypatch):
    how = dict(chip=CHIP, schedules=100, seed=3)
    one = pallasim.explore(programs.two_adds, programs.X, **how)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        many = pallasim.explore(programs.two_adds, programs.X, executor=threads, **how)
        assert len(one.outcomes) == 2 and one.schedules == many.schedules == 100 and many.to_json() == one.to_json()
        all_of_them = pallasim.explore(programs.two_adds, programs.X, executor=threads, policy="exhaustive", **how)
    assert all_of_them.exhausted
    _workers.shared().close()
    monkeypatch.setattr(_workers, "_shared", None)


class Forgetful(concurrent.futures.ThreadPoolExecutor):
    """Runs what it is given; of each third task it never says that it ended."""

    given = 0

    def submit(self, f, *args):
        self.given += 1
        ran = super().submit(f, *args)
        return concurrent.futures.Future() if self.given % 3 == 1 else ran


def test_what_an_executor_forgets_is_given_out_again(monkeypatch):
    monkeypatch.setattr(_many, "_SILENT", 0.3)
    with Forgetful(2) as executor:
        s = pallasim.sweep(programs.double, [8, 16, 32, 64], programs.X, chips=[CHIP], reference=programs.reference, executor=executor)
        assert executor.given > 4
    assert statuses(s) == dict.fromkeys([8, 16, 32, 64], "ok") and len(s.rows) == 4
    _workers.shared().close()


# --- samples ------------------------------------------------------------------------------------------------------------
def test_sweeps_run_samples(monkeypatch):
    from pallasim import _core

    notes = []

    def seen(*args, **how):
        text, data = predict(*args, **how)
        notes.extend(json.loads(text)["notes"])
        return text, data

    predict = _core.predict
    monkeypatch.setattr(_core, "predict", seen)
    x = jax.ShapeDtypeStruct((1 << 18,), jnp.float32)

    def make(block):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2

        spec = pl.BlockSpec((block,), lambda i: (i,))
        return lambda x: pl.pallas_call(kernel, grid=((1 << 18) // block,), in_specs=[spec], out_specs=spec, out_shape=x)(x)

    s = pallasim.sweep(make, [1024, 2048], x, chips=["gpu-h100"], jobs=0)
    assert [r.status for r in s.rows] == ["ok", "ok"]
    assert len([n for n in notes if "SMs with their share" in n]) == 2
