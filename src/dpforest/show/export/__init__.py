"""Released forests in the formats of others: ONNX, SQL, scikit-learn's manner, JSON. Public values only."""
