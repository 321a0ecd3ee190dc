"""Compiled functions that go on for long, run by `test_interrupts.py` in a process of its own.

For each case it says that it is ready, is sent a signal some time later, says that the signal got
through, and then what is wrong, if anything: with the state, with further calls, with handlers.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import optim

Case = Callable[[], tuple[Callable[[], Any], Callable[[], str]]]
"""Makes what goes on for long, and what then says what is wrong."""


def endless() -> Any:
    """A loop whose turn is a few instructions; of a negative number it has no turn."""
    return cr.jit(lambda x: cr.while_loop(lambda s: s > 0, lambda s: s * 1.0000001 + 1e-9, x))


def a_while_loop() -> tuple[Callable[[], Any], Callable[[], str]]:
    f = endless()
    stays = cr.tensor(-1.0)
    return lambda: f(cr.tensor(1.0)), lambda: "" if f(stays) == stays else "another call is wrong"


def a_while_loop_of_matrices() -> tuple[Callable[[], Any], Callable[[], str]]:
    f = cr.jit(lambda x: cr.while_loop(lambda s: cr.sum(s) > 0, lambda s: cr.sin(s @ s) * 0 + 1, x))
    zero = cr.zeros((200, 200))
    return lambda: f(zero + 1), lambda: "" if cr.sum(f(zero)) == 0 else "another call is wrong"


def a_while_loop_after_state() -> tuple[Callable[[], Any], Callable[[], str]]:
    state = cr.tensor(np.arange(5.0))

    @cr.jit
    def step(x: Any) -> Any:
        state.data = cr.while_loop(lambda s: cr.sum(s) > 0, lambda s: s * 1.0 + x, state + x)
        return cr.sum(state)

    step(cr.tensor(-100.0))
    was = state.numpy().copy()

    def wrong() -> str:
        if not np.array_equal(state.numpy(), was):
            return f"state is {state}, was {was}"
        step(cr.tensor(0.0))
        return "" if np.array_equal(state.numpy(), was) else "another call is wrong"

    return lambda: step(cr.tensor(1000.0)), wrong


def a_large_kernel() -> tuple[Callable[[], Any], Callable[[], str]]:
    x = np.full(20_000_000, 0.5)
    f = cr.jit(lambda x: cr.sum(cr.sin(cr.exp(cr.tanh(x))) * cr.lgamma(x)))
    few = cr.jit(lambda x: cr.exp(x) * 2)

    def again() -> None:
        while True:
            f(x)

    def wrong() -> str:  # the pool's threads work as before
        found = few(x[:3_000_000]).numpy()
        return "" if np.allclose(found, 2 * np.exp(0.5)) else "another call is wrong"

    return again, wrong


def a_large_product() -> tuple[Callable[[], Any], Callable[[], str]]:
    x = np.ones((1500, 1500), np.float32)
    f = cr.jit(lambda x: x @ x)
    f(x)

    def again() -> None:
        while True:
            f(x)

    return again, lambda: "" if np.all(f(x).numpy() == 1500) else "another call is wrong"


def a_scan() -> tuple[Callable[[], Any], Callable[[], str]]:
    f = cr.jit(lambda x: cr.scan(lambda c, i: (cr.sin(c) + i, cr.sum(c)), x, cr.zeros(400_000)))
    x = cr.zeros(50)
    f(x)

    def again() -> None:
        while True:
            f(x)

    return again, lambda: "" if cr.sum(f(x)[0]) == 0 else "another call is wrong"


def training() -> tuple[Any, Any, Any]:
    """A compiled step of a training, what it is given, and all its state."""
    rng = np.random.default_rng(0)
    w = cr.tensor(rng.normal(size=(32, 32)) / 6, requires_grad=True)
    count = cr.tensor(0.0)
    adam = optim.Adam([w], lr=1e-3)
    x = cr.tensor(rng.normal(size=(16, 32)))

    @cr.jit
    def step(x: Any) -> Any:
        adam.zero_grad()
        loss = cr.mean(cr.tanh(x @ w) ** 2)
        loss.backward()
        adam.step()
        count.data = count + 1
        return loss

    return step, x, (w, count)


def steps(joined: bool) -> tuple[Callable[[], Any], Callable[[], str]]:
    """Training that is ended has the state of so many whole steps, bit for bit."""
    step, x, (w, count) = training()

    def again() -> None:
        while True:
            step.loop([(x,)] * 2000) if joined else step(x)

    def wrong() -> str:
        other, y, (v, _) = training()
        for _ in range(int(count.item())):
            other(y)
        same = np.array_equal(w.detach().numpy(), v.detach().numpy())
        step(x)
        other(y)
        same = same and np.array_equal(w.detach().numpy(), v.detach().numpy())
        return "" if same else f"not the state of {count} steps"

    return again, wrong


def a_loop_of_steps() -> tuple[Callable[[], Any], Callable[[], str]]:
    return steps(joined=True)


def step_after_step() -> tuple[Callable[[], Any], Callable[[], str]]:
    return steps(joined=False)


def scalars() -> tuple[Callable[[], Any], Callable[[], str]]:
    def long(x: Any) -> Any:
        y = x
        for _ in range(1_000):
            y = y * 0.999 + 0.001
        return y

    f = cr.jit(long)
    one = cr.Value(1.0)
    want = f(one).data

    def again() -> None:
        while True:
            f(one)

    return again, lambda: "" if f(one).data == want else "another call is wrong"


def a_worker_thread() -> tuple[Callable[[], Any], Callable[[], str]]:
    f = endless()
    f(cr.tensor(-1.0))
    thread = threading.Thread(target=lambda: f(cr.tensor(1.0)), daemon=True)

    def wait() -> None:
        thread.start()
        thread.join()

    return wait, lambda: ""


class AskedError(Exception):
    """Raised by a handler of the user's."""


def raising(number: int, frame: Any) -> None:
    raise AskedError


CASES: dict[str, Case] = {
    f.__name__: f
    for f in (
        a_while_loop, a_while_loop_of_matrices, a_while_loop_after_state, a_large_kernel,
        a_large_product, a_scan, a_loop_of_steps, step_after_step, scalars, a_worker_thread,
    )
}  # fmt: skip


def run(name: str, number: int) -> None:
    """One case, ended by the signal `number`."""
    go, wrong = CASES[name]()
    kind = KeyboardInterrupt if number == signal.SIGINT else AskedError
    before = signal.getsignal(number)
    print("ready", flush=True)
    try:
        go()
        print("it came to an end", flush=True)
    except kind:
        print("through", flush=True)
    same = signal.getsignal(number) is before
    print((wrong() if same else "another handler is installed") or "fine", flush=True)


if __name__ == "__main__":
    faulthandler.enable()
    # a shell starts what runs in its background with SIGINT ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, raising)
    for line in sys.stdin:
        case, signal_number = line.split()
        run(case, int(signal_number))
