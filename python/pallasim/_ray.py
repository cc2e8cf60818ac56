"""Ray as a `concurrent.futures.Executor`."""
from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any


class RayExecutor(concurrent.futures.Executor):
    """`pallasim.sweep(..., executor=pallasim.RayExecutor())`: each call is a task of the Ray that this process is connected to (`ray.init`), which is
    started on this machine where there is none. options: of the tasks, as `ray.remote` takes them, such as num_cpus=1. Ray repeats a task whose worker dies."""

    def __init__(self, **options: Any) -> None:
        import ray

        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        self._ray, self._options = ray, options
        self._made: dict[Any, Any] = {}
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        if self._closed:
            raise RuntimeError("the executor was shut down")
        if fn not in self._made:
            remote = self._ray.remote(fn)
            self._made[fn] = remote.options(**self._options) if self._options else remote
        future: concurrent.futures.Future[Any] = self._made[fn].remote(*args, **kwargs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing more is taken; Ray itself goes on."""
        self._closed = True
