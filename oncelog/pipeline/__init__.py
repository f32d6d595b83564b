"""Runnable jobs on `oncelog.spark`: consume-transform-produce, the audit of a run, and a demonstration."""
