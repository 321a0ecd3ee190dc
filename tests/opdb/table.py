"""The one table: PyTorch's name of an entry, and our function of PyTorch's arguments."""

from __future__ import annotations

from tests.opdb.harness import Row
from tests.opdb.table_arrays import ARRAYS
from tests.opdb.table_choosing import CHOOSING
from tests.opdb.table_elementwise import ELEMENTWISE
from tests.opdb.table_linalg import LINALG
from tests.opdb.table_losses import LOSSES
from tests.opdb.table_nn import NN
from tests.opdb.table_reductions import REDUCTIONS

ROWS: list[Row] = [*ELEMENTWISE, *ARRAYS, *CHOOSING, *REDUCTIONS, *LINALG, *LOSSES, *NN]
