"""The door of those who speak: a session is a machine without I/O, and the glue that carries out what it says."""
