"""Mixed precision: half-size floats where they do, float32 where it matters. PyTorch's words."""

from chainrule.amp.autocast import LOWERED, WIDENED, autocast
from chainrule.amp.scaler import GradScaler
from chainrule.engine.border import with_border as _with_border

__all__ = ["LOWERED", "WIDENED", "GradScaler", "autocast"]

_with_border(globals())
