"""Tables on a cluster of Dask or Spark: workers do pure functions on a partition, the trainer keeps and counts."""
