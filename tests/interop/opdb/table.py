"""The one table: PyTorch's name of an entry, and our function of PyTorch's arguments."""

from __future__ import annotations

from tests.interop.opdb.harness import Row
from tests.interop.opdb.table_arrays import ARRAYS
from tests.interop.opdb.table_choosing import CHOOSING
from tests.interop.opdb.table_elementwise import ELEMENTWISE
from tests.interop.opdb.table_linalg import LINALG
from tests.interop.opdb.table_losses import LOSSES
from tests.interop.opdb.table_nn import NN
from tests.interop.opdb.table_reductions import REDUCTIONS

ROWS: list[Row] = [*ELEMENTWISE, *ARRAYS, *CHOOSING, *REDUCTIONS, *LINALG, *LOSSES, *NN]
