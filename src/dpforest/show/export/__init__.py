"""Released forests for other systems: as ONNX, SQL and JSON. Released values only."""
