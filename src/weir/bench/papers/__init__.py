"""The papers' studies, measured on the simulator beside their formulas."""
