"""These tests judge findings themselves: pytest's plugin, which a build tree announces, is not for them unless it is asked for."""


def pytest_configure(config):
    if config.pluginmanager.has_plugin("pallasim.pytest_plugin") and config.getoption("--pallasim") is None:
        config.pluginmanager.unregister(name="pallasim.pytest_plugin")
        config.pluginmanager.unregister(name="pallasim reports")
