"""The verifier's face for PyTorch: functions, calls and whole models as subjects.

Importing this package imports torch. The rest of the verifier sees only `Subject`s, made of NumPy
arrays; what is here turns one into the other.
"""

from chainrule.verify.pytorch.calls import subject_of_call, subjects_of_call
from chainrule.verify.pytorch.functions import subject_of_function, subjects_of_function
from chainrule.verify.pytorch.models import ModelSubjects, model_subjects

__all__ = [
    "ModelSubjects",
    "model_subjects",
    "subject_of_call",
    "subject_of_function",
    "subjects_of_call",
    "subjects_of_function",
]
