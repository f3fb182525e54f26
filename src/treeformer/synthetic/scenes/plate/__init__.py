"""Photographs of seedlings on agar plates."""
