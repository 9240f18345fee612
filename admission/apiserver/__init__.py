"""What an API server does around the webhook calls, for trying the server without a cluster."""
