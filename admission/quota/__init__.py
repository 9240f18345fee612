"""ResourceQuota: what objects use, which quotas apply to them, and whether they fit."""
