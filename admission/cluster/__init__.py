"""The API server as others see it: transport, caches that follow it, and the ledger that is kept there."""
