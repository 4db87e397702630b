"""``weir bench tpch``: a view over five TPC-H tables at three sources; maintained, recomputed, done by bare drivers.

Read in this order: ``tables`` (what there is), ``data`` and ``places`` (databases with it), ``changes`` (what happens
to it), the three ways ``weir_way``, ``recompute`` and ``floor``, then ``run`` (who goes when) and ``report``.
"""
