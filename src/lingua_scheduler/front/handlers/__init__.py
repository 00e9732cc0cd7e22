"""The HTTP handlers: one message, one flow, no rules."""
