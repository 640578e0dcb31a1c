"""Which directed links lie between two devices: by arithmetic in cluster families, by shortest paths elsewhere."""
