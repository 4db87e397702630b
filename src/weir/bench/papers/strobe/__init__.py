"""How C-Strobe's queries grow with deletes and tables."""
