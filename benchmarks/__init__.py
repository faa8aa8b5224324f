"""`make bench`: what Outlast costs, beside what the disk can do and beside a peer, measured in the same run.

Absolute times say more about a machine than about a library, so every figure stands beside a yardstick
that was measured between its own repeats, and what counts is the ratio of the two. The yardsticks are a
bare loop over `apsw` that commits the same rows under the same pragmas, and DBOS in its best setting.

Nothing here is a test: a target that is missed is printed as missed, and the exit code stays 0. It
is 1 only where a measure could not run.
"""
