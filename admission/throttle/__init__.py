"""Throttle and ClusterThrottle: which pods they are about, what limit is in force, and whether a pod fits."""
