"""The store for a fleet: a schema of a PostgreSQL database that the workers of many machines share."""

from outlast.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
