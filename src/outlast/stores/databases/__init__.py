"""The user's own databases: what Outlast writes there, in transactions that are the user's, too.

A `Source` is where transactions come from, what `outlast.transaction` and `App(outbox=)` are given (`sources.py`). A
`Transaction` is an open one, of sqlite3, psycopg or SQLAlchemy (`drivers.py`). All that is done with them is written
once, as coroutines that wait only where the driver does; `driving.py` says how a blocking driver runs them.
"""
