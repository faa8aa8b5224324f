"""Many workers in one thread, in virtual time, under every fault that a seed can think of.

A schedule is a seed. From it one `random.Random` draws the programs, the workers, who moves next, how long everything
takes, and what goes wrong; so the same seed is the same history, event for event. The code under test is the real one
(App, Worker, Writer, Watcher, engine, memory store); what stands in for the machine is small:

| file | stands in for |
|---|---|
| `simulator.py` | time: a heap of events |
| `loop.py`, `threads.py` | the event loop and the threads of a process |
| `process.py` | a process: it can crash, freeze, drain, and have a wrong clock |
| `storage.py` | the wire to the store: unavailable, slow, answers lost |
| `world.py` | the outside world, where effects arrive, late or never |
| `people.py` | those who start, cancel and decide |
| `programs.py`, `plans.py` | workflows: a random plan, followed by one interpreter |
| `oracle.py` | who checks each rule of `outlast.core.invariants` at each step |
| `faults.py`, `seasons.py` | what goes wrong, by chance or for certain |
| `schedule.py`, `verdict.py` | a schedule from end to end, and what must be true then |
| `broken.py` | broken variants of the library, which the oracle must notice |
"""
