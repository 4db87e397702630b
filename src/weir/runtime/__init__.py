"""The runtime: live sources in, consistent Delta views out. ``warehouse`` is what a user touches, ``rounds`` its step.

In the order in which a change passes: ``channels`` (a source's thread), ``blocks`` (what a visit brought, as updates),
``machine`` (an algorithm and its questions), ``sweeps`` (batches on Spark), ``writing`` (a Delta version), the reader.
"""
