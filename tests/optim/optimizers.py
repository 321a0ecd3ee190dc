"""Every optimizer with settings in which it is tried: one table for eager and compiled tests."""

from __future__ import annotations

from typing import Any

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.05}),
    "sgd, decay": ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    "sgd, momentum": ("SGD", {"lr": 0.05, "momentum": 0.9}),
    "sgd, dampened": (
        "SGD", {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.01},
    ),
    "sgd, nesterov": (
        "SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    ),
    "sgd, maximize": ("SGD", {"lr": 0.05, "momentum": 0.9, "maximize": True}),
    "adam": ("Adam", {"lr": 0.02}),
    "adam, microgpt": ("Adam", {"lr": 0.01, "betas": (0.85, 0.99)}),
    "adam, decay": ("Adam", {"lr": 0.02, "weight_decay": 0.1, "eps": 1e-5}),
    "adam, no memory": ("Adam", {"lr": 0.02, "betas": (0.0, 0.0)}),
    "adam, amsgrad": ("Adam", {"lr": 0.02, "amsgrad": True, "weight_decay": 0.05}),
    "adam, decoupled": (
        "Adam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ),
    "adamw": ("AdamW", {"lr": 0.02}),
    "adamw, decay": ("AdamW", {"lr": 0.02, "weight_decay": 0.3}),
    "adamw, amsgrad": ("AdamW", {"lr": 0.02, "amsgrad": True}),
    "nadam": ("NAdam", {"lr": 0.02}),
    "nadam, decay": ("NAdam", {"lr": 0.02, "weight_decay": 0.1, "momentum_decay": 0.02}),
    "nadam, decoupled": (
        "NAdam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "radam": ("RAdam", {"lr": 0.02}),
    "radam, decay": ("RAdam", {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.9)}),
    "radam, decoupled": (
        "RAdam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "adamax": ("Adamax", {"lr": 0.02}),
    "adamax, decay": ("Adamax", {"lr": 0.02, "weight_decay": 0.1, "maximize": True}),
    "rmsprop": ("RMSprop", {"lr": 0.02}),
    "rmsprop, momentum": ("RMSprop", {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1}),
    "rmsprop, centered": ("RMSprop", {"lr": 0.02, "centered": True, "eps": 1e-3}),
    "adagrad": ("Adagrad", {"lr": 0.05}),
    "adagrad, decay": (
        "Adagrad",
        {"lr": 0.05, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3},
    ),
    "adadelta": ("Adadelta", {"lr": 0.5}),
    "adadelta, decay": ("Adadelta", {"rho": 0.8, "weight_decay": 0.1, "eps": 1e-4}),
    "rprop": ("Rprop", {"lr": 0.02}),
    "rprop, etas": ("Rprop", {"etas": (0.4, 1.3), "step_sizes": (1e-3, 0.1)}),
    "lion": ("Lion", {"lr": 0.01}),
    "lion, decay": ("Lion", {"lr": 0.01, "weight_decay": 0.3, "betas": (0.8, 0.9)}),
    "adafactor": ("Adafactor", {"lr": 0.05}),
    "adafactor, decay": (
        "Adafactor", {"lr": 0.5, "weight_decay": 0.1, "d": 1.5, "eps": (1e-5, 0.02)},
    ),
    "muon": ("Muon", {"lr": 0.02}),
    "muon, plain": (
        "Muon",
        {"lr": 0.02, "nesterov": False, "ns_steps": 3, "adjust_lr_fn": "match_rms_adamw"},
    ),
}  # fmt: skip
"""By a name of its own: the class, which PyTorch has, too, except for Lion, and its settings."""


def takes(name: str, shape: tuple[int, ...]) -> bool:
    """Whether the optimizer of a row takes parameters of that shape."""
    return ROWS[name][0] != "Muon" or len(shape) == 2
