"""Scenes: backgrounds of synthetic photographs in the laboratory, on agar plates and outdoors."""
