"""Nsight Systems: SQLite exports and .nsys-rep reports."""
