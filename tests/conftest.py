"""These tests judge findings themselves: pytest's plugin, which a build tree announces, is not for them unless it is asked for."""


def pytest_configure(config):
    if config.pluginmanager.has_plugin("pallasim.pytest_plugin") and config.getoption("--pallasim") is None and config.getoption("--pallasim-capture") is None:
        config.pluginmanager.unregister(name="pallasim.pytest_plugin")
        config.pluginmanager.unregister(name="pallasim reports")
    config.addinivalue_line("markers", "slow_first: takes long, and so begins before the others: behind them one core would wait for it")
    config.addinivalue_line("markers", "one_jax: is about what we say and do around kernels: the oldest JAX is enough for it")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("slow_first") is None)
