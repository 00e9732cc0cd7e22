"""Who asks: one message comes in, goes through its flows, and is answered. No rules here."""
