"""The one table: PyTorch's name of an entry, and our function of PyTorch's arguments."""

from __future__ import annotations

from tests.ops.opdb.harness import Row
from tests.ops.opdb.table_arrays import ARRAYS
from tests.ops.opdb.table_choosing import CHOOSING
from tests.ops.opdb.table_elementwise import ELEMENTWISE
from tests.ops.opdb.table_linalg import LINALG
from tests.ops.opdb.table_losses import LOSSES
from tests.ops.opdb.table_nn import NN
from tests.ops.opdb.table_reductions import REDUCTIONS

ROWS: list[Row] = [*ELEMENTWISE, *ARRAYS, *CHOOSING, *REDUCTIONS, *LINALG, *LOSSES, *NN]
