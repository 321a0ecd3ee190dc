"""Mixed precision: half-size floats where they do, float32 where it matters. PyTorch's words."""

from chainrule.amp.autocast import PRECISION, autocast
from chainrule.amp.scaler import GradScaler

__all__ = ["PRECISION", "GradScaler", "autocast"]
