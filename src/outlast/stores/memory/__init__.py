"""The store of tests: everything in this process's memory, gone with it."""

from outlast.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
