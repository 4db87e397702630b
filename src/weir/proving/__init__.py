"""How Weir is proved on real databases. Read in this order:

1. ``oracle``: what is right. A replay of the delivered transactions, and every answer compared with it.
2. ``kinds``, ``databases``, ``servers``: where it is tried. Private databases of every provable kind, with an
   application, Weir's role and capture; one builder for all that follows, for the benchmarks and for the tests.
3. ``writers``, ``workloads``: who writes. Concurrent transactions as nasty as each kind allows, and naive ways of
   capture planted to be found out.
4. ``stress``: both together, visit after visit (``weir stress``).
5. ``soak``: a whole warehouse for a long time. ``databases`` and ``traffic`` run it, the ``journal`` says what was
   written, ``replay`` and ``recorded`` check every state that a view has passed through (``weir bench soak``).
6. ``shop``, ``demonstration``: the demo, to be looked at (``weir demo``).
"""
