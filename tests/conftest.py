"""Settings of the suite: hypothesis runs small and repeatable unless HYPOTHESIS_PROFILE=dev;
compiled code is cached in a folder of the run's own, under a key of the run's own.
"""

from __future__ import annotations

import atexit
import gc
import os
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from tests import sampling

settings.register_profile(
    "ci",
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have the folder of who started them
    _CACHE = tempfile.TemporaryDirectory(prefix="chainrule-tests-")
    atexit.register(_CACHE.cleanup)
    os.environ["CHAINRULE_CACHE_DIR"] = _CACHE.name
    os.environ["XDG_CONFIG_HOME"] = f"{_CACHE.name}/config"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What the sample does without is run by `make sweep`."""
    for item in list(sampling.left_out(items)):
        item.add_marker(pytest.mark.sweep)


def pytest_collection_finish() -> None:
    """Twenty thousand tests are no garbage: collections do not look through them again."""
    gc.collect()
    gc.freeze()
