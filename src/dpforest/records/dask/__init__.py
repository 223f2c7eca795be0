"""Records on the workers of a Dask cluster: rows and codes stay there, sums of counts leave and are sealed."""
