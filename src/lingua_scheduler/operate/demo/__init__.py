"""A minute of fleet life: simulated nodes and callers on a real engine, some of them dying."""
