"""What the crash tests act with.

- `agent.py`: workflows whose steps leave a line in a ledger outside of the store.
- `worker.py`, `zygote.py`: the processes, forked from one that has imported everything.
- `points.py`: where a process can be made to die, to freeze or to lose an answer.
- `broken.py`: variants of the library with one guard taken out, which the tests must catch.
- `scene.py`: one store with its processes, as the tests see it.
- `verdict.py`: what must hold afterwards, whatever happened.
"""
