"""quota-admission: LimitRange defaults and bounds, then ResourceQuota totals, as a Kubernetes admission webhook."""
