"""The ports of the pipeline without a cluster: policies and objects from files, the count in memory and in SQLite."""
