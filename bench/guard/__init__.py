"""What may happen beside dispatching, and what that may cost it."""
