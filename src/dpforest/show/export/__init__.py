"""Released forests for other systems: as ONNX, SQL, JSON, and as an estimator of scikit-learn. Released values only."""
