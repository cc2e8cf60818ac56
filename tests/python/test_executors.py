"""Sweeps by other people's engines: Dask with a real scheduler and two workers on the loopback interface, Ray on one machine. Both are extras."""
import os
import pathlib
import signal
import sys
import threading
import time

import pytest
import sweep_programs as programs

import pallasim

pytestmark = pytest.mark.one_jax

CHIP = "tpu-v5e"
CONFIGS = [8, 16, 32, 64, "raise"]


def key(s):
    return [(r.config, r.status, r.reason, r.seconds, r.why, r.error) for r in s.rows]


@pytest.fixture(scope="module")
def alone():
    return pallasim.sweep(programs.double, CONFIGS, programs.X, chips=[CHIP], reference=programs.reference, jobs=0)


@pytest.fixture(scope="module")
def dask_client():
    """Processes of their own, each with a nanny that starts another one in place of one that dies."""
    distributed = pytest.importorskip("distributed")
    path = os.pathsep.join([os.path.dirname(programs.__file__), os.path.dirname(os.path.dirname(pallasim.__file__)), *filter(None, sys.path)])
    before, os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH"), path
    try:
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=0) as cluster:
            with distributed.Client(cluster) as client:
                yield client
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def test_dask_gives_the_same(dask_client, alone):
    s = pallasim.sweep(programs.double, CONFIGS, programs.X, chips=[CHIP], reference=programs.reference, executor=dask_client.get_executor())
    assert key(s) == key(alone) and not s.interrupted


def test_a_worker_of_dask_that_is_killed_loses_nothing(dask_client, tmp_path):
    configs = [(str(tmp_path), n) for n in range(60)]
    killed = []

    def kill():
        while len(list(tmp_path.iterdir())) < 15:
            time.sleep(0.05)
        killed.append(list(dask_client.run(os.getpid).values())[0])
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    s = pallasim.sweep(programs.slow_double, configs, programs.SHAPE, chips=[CHIP], executor=dask_client.get_executor())
    thread.join()
    assert killed and [r.config for r in s.rows] == configs and all(r.ok for r in s.rows)  # each once, in their order
    asked = {pathlib.Path(f).name.split(".")[0] for f in os.listdir(tmp_path)}
    assert asked == {str(n) for n in range(60)}


def test_dask_explores_the_same(dask_client):
    how = dict(chip=CHIP, schedules=100, seed=3)
    one = pallasim.explore(programs.two_adds, programs.X, **how)
    many = pallasim.explore(programs.two_adds, programs.X, executor=dask_client.get_executor(), **how)
    assert len(one.outcomes) > 1 and many.to_json() == one.to_json()


def test_ray_gives_the_same(alone):
    ray = pytest.importorskip("ray")
    path = os.pathsep.join([os.path.dirname(programs.__file__), os.path.dirname(os.path.dirname(pallasim.__file__)), *filter(None, sys.path)])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1",
             runtime_env={"env_vars": {"PYTHONPATH": path}})
    try:
        s = pallasim.sweep(programs.double, CONFIGS, programs.X, chips=[CHIP], reference=programs.reference, executor=pallasim.RayExecutor(num_cpus=1))
    finally:
        ray.shutdown()
    assert key(s) == key(alone) and not s.interrupted
