"""Data to train on: names, text files, digits; the tokenizer; batches of documents."""

from chainrule.data.bpe import BPETokenizer
from chainrule.data.corpus import IGNORE, Batch, Corpus
from chainrule.data.datasets import DataLoader, Dataset, TensorDataset, collate
from chainrule.data.digits import Digits, load_digits
from chainrule.data.readers import read_csv, read_idx, read_npz
from chainrule.data.subsets import ConcatDataset, Subset, random_split
from chainrule.data.text import load_names, read_documents
from chainrule.data.tokenizer import CharTokenizer
from chainrule.data.toys import spirals, two_moons
from chainrule.data.worker_processes import WorkerError
from chainrule.engine.border import with_border as _with_border
from chainrule.names.not_offered import DATA as _DATA
from chainrule.names.spellings import missing_name_getter as _missing_name_getter

__all__ = [
    "IGNORE",
    "BPETokenizer",
    "Batch",
    "CharTokenizer",
    "ConcatDataset",
    "Corpus",
    "DataLoader",
    "Dataset",
    "Digits",
    "Subset",
    "TensorDataset",
    "WorkerError",
    "collate",
    "load_digits",
    "load_names",
    "random_split",
    "read_csv",
    "read_documents",
    "read_idx",
    "read_npz",
    "spirals",
    "two_moons",
]

__getattr__ = _missing_name_getter(__name__, _DATA.get)
_with_border(globals())
