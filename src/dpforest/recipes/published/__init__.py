"""Printed algorithms: exactly what the papers print, for research. NOT private; every model says so."""
