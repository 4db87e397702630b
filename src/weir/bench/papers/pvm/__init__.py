"""Figures 21 to 26 of the PVM paper, in virtual time."""
