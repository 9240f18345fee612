"""What one replica does for the whole cluster: counts, settles, registers the webhooks, finds out who accounts."""
