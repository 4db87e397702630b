"""The soak: writers on live databases for a long time, and afterwards every recorded state of a view checked.

Three tables, each at a source of its own: ``crm.customer``, ``sales.orders``, ``shop.item``.
"""
