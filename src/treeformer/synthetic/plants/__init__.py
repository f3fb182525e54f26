"""Growth models: plants as curved axes that are assembled into skeletons."""
