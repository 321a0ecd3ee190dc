"""Data to train on: names, text files, digits; the tokenizer; batches of documents."""

from chainrule.border import with_border as _with_border
from chainrule.data.corpus import IGNORE, Batch, Corpus
from chainrule.data.digits import Digits, load_digits
from chainrule.data.text import load_names, read_documents
from chainrule.data.tokenizer import CharTokenizer

__all__ = [
    "IGNORE",
    "Batch",
    "CharTokenizer",
    "Corpus",
    "Digits",
    "load_digits",
    "load_names",
    "read_documents",
]

_with_border(globals())
