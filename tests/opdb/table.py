"""The one table: PyTorch's name of an entry, and our function of PyTorch's arguments."""

from __future__ import annotations

from opdb.harness import Row
from opdb.table_arrays import ARRAYS
from opdb.table_choosing import CHOOSING
from opdb.table_elementwise import ELEMENTWISE
from opdb.table_linalg import LINALG
from opdb.table_losses import LOSSES
from opdb.table_nn import NN
from opdb.table_reductions import REDUCTIONS

ROWS: list[Row] = [*ELEMENTWISE, *ARRAYS, *CHOOSING, *REDUCTIONS, *LINALG, *LOSSES, *NN]
