"""Lingua Scheduler: a dispatch plane for real-time speech translation, on Redis or Valkey."""
