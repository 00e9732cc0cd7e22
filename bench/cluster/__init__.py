"""The figures of several instances, and of several primaries."""
