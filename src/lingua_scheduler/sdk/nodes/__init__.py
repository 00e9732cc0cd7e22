"""A node: what it says of itself, its place in the fleet, what it has in hand, and how its handler is called."""
