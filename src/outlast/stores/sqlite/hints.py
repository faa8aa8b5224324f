"""Hints between processes: that something was committed, so that nobody need wait for their next look at the file.

SQLite tells nobody of a commit. So who commits what others may want to know opens an empty file beside the store and
closes it, and the kernel tells all who watch that file (inotify). Nothing is written: a hint costs the disk nothing.

Only a hint: where the kernel has no inotify, or none left for this user, the next look finds what there is.
"""

from __future__ import annotations

import os
import select
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

GAP_S = 0.005  # between two hints that are passed on: any number of commits need one
IN_OPEN = 0x20
IN_IGNORED = 0x8000  # the file is gone, and with it the watch
EVENT = struct.Struct("iIII")  # struct inotify_event, of a file that is watched itself: it has no name


class Hints:
    """See the top of this file. `path` is the empty file; who listens makes it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._listener: Callable[[], None] | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = (-1, -1)  # a pipe, while there is a thread

    def say(self) -> None:
        """Let those who listen look now."""
        with suppress(OSError):  # nobody has ever listened
            os.close(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Have `listener` called, in a thread of its own, when somebody says something, this process included."""
        if os.getpid() != self._pid:  # a child of the process that the thread is in
            self._begin_anew()
        with self._lock:
            self._listener = listener
            if listener is None or self._thread is not None:
                return
            try:
                watch = self._watch()
            except (OSError, AttributeError):
                return
            self._stop = os.pipe()
            self._thread = threading.Thread(target=self._run, args=(watch,), name="outlast-hints", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Listen no more. In a forked child this does nothing: the thread is the parent's."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                os.write(self._stop[1], b".")
                thread.join()
                for end in self._stop:
                    os.close(end)

    def _watch(self) -> int:
        """Watch the file, made where it is missing. Raises OSError, or AttributeError where there is no inotify."""
        import ctypes  # noqa: PLC0415 - for workers alone: a client need not load it

        os.close(os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o644))
        libc = ctypes.CDLL(None, use_errno=True)
        watch = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if watch < 0:
            raise OSError(ctypes.get_errno(), "no inotify")
        if libc.inotify_add_watch(watch, os.fsencode(self._path), IN_OPEN) < 0:
            os.close(watch)
            raise OSError(ctypes.get_errno(), "no inotify", self._path)
        return watch

    # -- the thread ------------------------------------------------------------------

    def _run(self, watch: int) -> None:
        while self._serve(watch):
            os.close(watch)
            try:
                watch = self._watch()
            except OSError:  # the folder is gone, too
                return
        os.close(watch)

    def _serve(self, watch: int) -> bool:
        """Pass hints on until it is over; return whether that is since the file is gone."""
        stop = self._stop[0]
        poll = select.poll()  # select() knows only the first thousand files of a process
        for end in (watch, stop):
            poll.register(end, select.POLLIN)
        rest = select.poll()
        rest.register(stop, select.POLLIN)
        while True:
            if stop in dict(poll.poll()):
                return False
            events = EVENT.iter_unpack(os.read(watch, 256 * EVENT.size))
            gone = any(mask & IN_IGNORED for _, mask, _, _ in events)
            if (listener := self._listener) is not None:
                listener()
            if gone or rest.poll(GAP_S * 1000):
                return gone
