"""Runs inside the program that `rooflab run --profile` watches: a profiler on when torch or jax is imported.

It is copied beside a sitecustomize.py, which Python imports before a program, so it needs nothing but the standard
library. Whatever goes wrong here is written down and left alone: the program runs on.

A PyTorch program that makes an optimizer is recorded from its second step on, a few steps long; any other from the
import on; a JAX program from its first compiled function on. Each recording ends after some seconds at most.

A recording of PyTorch never begins while an operation or a `record_function` is open that began in an earlier one:
PyTorch would write its end into memory that it has freed (torch: profiler_kineto.cpp, onFunctionExit).
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib.util
import json
import os
import signal
import sys
import threading
import time
import weakref

WARM_UP = 1  # optimizer steps before those that are recorded: compilation, allocation, caches
SETTINGS = "ROOFLAB_PROFILE"  # JSON: folder, steps, seconds
FRAMEWORKS = ("torch", "jax")
_COMPILED = "/jax/core/compile/backend_compile_duration"  # jax/_src/dispatch.py: BACKEND_COMPILE_EVENT
_STARTED = set()  # frameworks of this process
_SPAWNED = "--multiprocessing-fork" in getattr(
    sys, "orig_argv", ()
)  # by multiprocessing: has its own import of torch


class Said:
    """What this process has to say of its profile, as a JSON file that the watching rooflab reads."""

    def __init__(self, framework, folder):
        self.pid = os.getpid()
        self.folder = folder
        self.stem = os.path.join(folder, f"{framework}-{self.pid}")
        self.words = {"pid": self.pid, "argv": sys.argv[:4], "framework": framework}

    def write(self, **words):
        """Add `words`, and write all."""
        self.words.update(words)
        with open(f"{self.stem}.said", "w", encoding="utf-8") as file:
            json.dump(self.words, file)

    def guarded(self, work):
        """`work`, whose errors are said and kept from the program."""

        def inner(*arguments, **keywords):
            if os.getpid() != self.pid:
                return  # a fork of the program that is profiled
            try:
                work(*arguments, **keywords)
            except Exception as error:  # noqa: BLE001 — the program is not ours to stop
                self.write(error=f"{type(error).__name__}: {error}"[:300])

        return inner


class Torch:
    """Recordings of a PyTorch program, of which one is kept: from the import on, or of its optimizer's steps."""

    def __init__(self, said, steps, seconds):
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.said, self.steps, self.seconds = said, steps, seconds
        self.profiler = None  # that records now
        self.held = None  # one that has stopped and was not written
        self.seen, self.first, self.began, self.thread = 0, None, 0.0, None
        self.trains = self.stepping = self.written = False
        self.follow_optimizers()
        register_optimizer_step_post_hook(said.guarded(self.stepped))
        if not _SPAWNED and threading.current_thread() is threading.main_thread():
            self.start("from the import of torch on")
            self.follow_cuda()

    def start(self, what):
        """Record on this thread, for `seconds` at most."""
        import torch
        from torch.profiler import ProfilerAction, ProfilerActivity, profile

        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_initialized():  # else profiling would initialise it, before the program has set it up
            activities.append(ProfilerActivity.CUDA)
        # Even where nothing changes from step to step, a schedule is what makes it mark steps.
        record = ProfilerAction.RECORD
        self.profiler = profile(activities=activities, schedule=lambda step: record, record_shapes=True)
        self.profiler.start()
        self.began, self.thread, self.what = time.perf_counter(), threading.get_ident(), what
        later(self.seconds, self.said.guarded(lambda mine=self.profiler: self.stop(mine, "time")))

    def stop(self, mine, why):
        """Stop recording, where `mine` still does; on the thread that it was started on."""
        if self.profiler is not mine or mine is None or threading.get_ident() != self.thread:
            return
        self.profiler = None
        mine.stop()
        if self.stepping and self.seen <= WARM_UP and why == "end":
            return  # no step in it: what follows the training
        self.held = (mine, why, time.perf_counter() - self.began)
        if self.stepping:
            self.write()

    def follow_optimizers(self):
        """Stop the recording from the import on where the program makes an optimizer: its steps are to come."""
        from torch.optim import Optimizer

        def made():
            if not self.trains:
                self.trains = True
                self.stop(self.profiler, "optimizer")
                self.held = None

        made, make = self.said.guarded(made), Optimizer.__init__

        @functools.wraps(make)
        def and_say(optimizer, *arguments, **keywords):
            made()
            make(optimizer, *arguments, **keywords)

        setattr(Optimizer, "__init__", and_say)  # noqa: B010 — a checker of types would have its own signature

    def stepped(self, optimizer, *_):
        """Called after each step of each optimizer: those of the first one count."""
        if self.first is None or self.first() is None:
            self.first = weakref.ref(optimizer)
        if self.first() is not optimizer or self.written:
            return
        self.seen += 1
        if self.seen == WARM_UP and self.profiler is None:
            self.stepping = True
            self.start(f"from optimizer step {WARM_UP + 1} on")
        elif self.stepping and self.profiler is not None and threading.get_ident() == self.thread:
            if self.seen >= WARM_UP + self.steps:
                self.stop(self.profiler, "steps")
            else:
                self.profiler.step()

    def follow_cuda(self):
        """Begin again when the program initialises CUDA: what came before had no kernels."""
        import torch

        def again():
            if self.profiler is None and not self.trains:
                self.start("from the first use of CUDA on")

        def initialised():
            if not self.trains:
                self.stop(self.profiler, "cuda")
                later(0.2, self.said.guarded(again))  # when the operation that did it is over

        if not torch.cuda.is_initialized() and torch.backends.cuda.is_built():
            torch.cuda._lazy_call(self.said.guarded(initialised))

    def end(self):
        """At the end of the program: write what was recorded."""
        self.stop(self.profiler, "end")
        if not self.written:
            self.write()

    def write(self):
        """Write the recording that is held."""
        if self.held is None:
            why = "thread" if self.profiler is not None else "few" if self.trains else "spawned"
            self.said.write(file=None, steps=self.seen, why=why)
            return
        mine, why, seconds = self.held
        self.held, self.written = None, True
        path = f"{self.said.stem}.pt.trace.json"
        mine.export_chrome_trace(path)
        recorded = max(self.seen - WARM_UP, 0) if self.stepping else self.seen
        self.said.write(file=path, what=self.what, why=why, seconds=seconds, steps=recorded)


class Jax:
    """A recording of a JAX program, from its first compiled function on: before, its devices are not set up."""

    def __init__(self, said, steps, seconds):
        import jax

        self.said, self.seconds = said, seconds
        self.on, self.seen, self.began, self.lock = False, False, 0.0, threading.Lock()
        if not _SPAWNED:
            jax.monitoring.register_event_duration_secs_listener(self.compiled)

    def compiled(self, event, duration_secs, **_):
        """Called for everything that JAX times: starts at the end of the first compilation."""
        if event == _COMPILED and not self.seen:
            self.seen, self.began = True, time.perf_counter()
            self.said.guarded(self.start)()

    def start(self):
        """Record, for `seconds` at most."""
        import jax

        jax.profiler.start_trace(f"{self.said.stem}.jax")
        self.on = True
        timer = threading.Timer(self.seconds, self.said.guarded(lambda: self.stop("time")))
        timer.daemon = True
        timer.start()

    def stop(self, why):
        """Write what was recorded, once."""
        import jax

        with self.lock:
            if not self.on:
                return
            self.on = False
        seconds = time.perf_counter() - self.began
        jax.profiler.stop_trace()
        found = [
            os.path.join(folder, name)
            for folder, _, names in os.walk(f"{self.said.stem}.jax")
            for name in names
            if name.endswith(".xplane.pb")
        ]
        what = "from the first compiled function on"
        self.said.write(file=found[0] if found else None, what=what, why=why, seconds=seconds, steps=0)

    def end(self):
        """At the end of the program."""
        if not self.seen:
            self.said.write(file=None, steps=0)
        self.stop("end")


def later(seconds, work):
    """Have the main thread do `work` between two of its instructions, in `seconds`."""
    if threading.current_thread() is not threading.main_thread():
        return  # a recording of another thread ends with its steps, or with the program
    call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: work() or 0)
    _KEPT.append(call)
    timer = threading.Timer(seconds, lambda: ctypes.pythonapi.Py_AddPendingCall(call, None))
    timer.daemon = True
    timer.start()


_KEPT = []  # what C calls must not be collected


def begin(framework):
    """Profile this process, whose program has just imported `framework`."""
    if _STARTED:
        return  # the other framework was first
    _STARTED.add(framework)
    settings = json.loads(os.environ[SETTINGS])
    said = Said(framework, settings["folder"])
    said.write()
    recorder = None

    def start():
        nonlocal recorder
        kind = Torch if framework == "torch" else Jax
        recorder = kind(said, settings["steps"], settings["seconds"])

    said.guarded(start)()
    if recorder is None:
        return
    end = once(said.guarded(recorder.end))
    atexit.register(end)
    leave = os._exit

    def exit_now(code):
        end()
        leave(code)

    os._exit = exit_now
    on_main = threading.current_thread() is threading.main_thread()
    if on_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:

        def terminated(number, frame):
            end()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, terminated)


def once(work):
    """`work`, done at its first call alone."""
    done = []

    def inner():
        if not done:
            done.append(True)
            work()

    return inner


class Finder:
    """Stands first where Python looks for modules, and does something after torch or jax has been imported."""

    def __init__(self):
        self.looking = set()

    def find_spec(self, name, path=None, target=None):
        """The spec that the others find, whose loader then calls `begin`."""
        if name not in FRAMEWORKS or name in self.looking or name in _STARTED:
            return None
        self.looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking.discard(name)
        if spec is None or spec.loader is None:
            return None
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            loader.exec_module = execute
            begin(name)

        loader.exec_module = exec_module
        return spec


def arm():
    """Wait for an import of torch or jax in this process."""
    sys.meta_path.insert(0, Finder())
