"""Several workers train one model: the same program on each, on parts of each batch."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from chainrule.engine.border import with_border as _with_border
from chainrule.names.spellings import missing_name_getter as _missing_name_getter
from chainrule.parallel.checkpoint import load, save
from chainrule.parallel.group import Group
from chainrule.parallel.worker_setup import group

if TYPE_CHECKING:
    from chainrule.parallel.ray_backend import RayConfig

__all__ = ["Group", "RayConfig", "group", "load", "save"]


def __getattr__(name: str) -> Any:
    if name == "RayConfig":  # it needs Ray
        return _import_module("chainrule.parallel.ray_backend").RayConfig
    return _missing_name_getter(__name__)(name)


_with_border(globals())
