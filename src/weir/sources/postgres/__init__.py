"""PostgreSQL as an exact source: logical replication (``postgres``) or a trigger log (``postgres-triggers``)."""
