"""Data to train on: names, text files, digits; the tokenizer; batches of documents."""

from chainrule.data.bpe import BPETokenizer
from chainrule.data.corpus import IGNORE, Batch, Corpus
from chainrule.data.datasets import DataLoader, Dataset, TensorDataset, collate
from chainrule.data.digits import Digits, load_digits
from chainrule.data.readers import read_csv, read_idx, read_npz
from chainrule.data.text import load_names, read_documents
from chainrule.data.tokenizer import CharTokenizer
from chainrule.data.toys import spirals, two_moons
from chainrule.data.worker_processes import WorkerError
from chainrule.engine.border import with_border as _with_border

__all__ = [
    "IGNORE",
    "BPETokenizer",
    "Batch",
    "CharTokenizer",
    "Corpus",
    "DataLoader",
    "Dataset",
    "Digits",
    "TensorDataset",
    "WorkerError",
    "collate",
    "load_digits",
    "load_names",
    "read_csv",
    "read_documents",
    "read_idx",
    "read_npz",
    "spirals",
    "two_moons",
]

_with_border(globals())
