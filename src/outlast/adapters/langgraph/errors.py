"""What a checkpointer raises besides the errors of Outlast."""

from __future__ import annotations

from outlast.core.errors import OutlastError


class ThreadConflict(OutlastError):
    """Another writer has put a checkpoint on the thread since this one read it, or has deleted the thread.

    Nothing was written over it. The input of the call may be in the thread's state already: look there (`get_state`),
    and go on with `invoke(None, config)` where it is, else invoke the graph again. `thread` is the thread's id.
    """

    def __init__(self, message: str, thread: str) -> None:
        super().__init__(message)
        self.thread = thread


class ThreadOwned(OutlastError):
    """The thread belongs to a run of Outlast, and who wrote was not that run, or no longer its worker.

    `thread` is the thread's id, and the run's.
    """

    def __init__(self, message: str, thread: str) -> None:
        super().__init__(message)
        self.thread = thread
