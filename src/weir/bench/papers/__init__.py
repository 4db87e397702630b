"""The papers' figures, measured on the simulator beside their formulas.

A folder per paper: ``study`` measures, ``model`` holds the paper's formulas, ``report`` says how the study is shown
(tables, pictures) and declares the command (``BENCH``); what the simulated world is like stands beside them.
``study.py`` is what all of them share. The Ring paper's few latencies fit into one file.
"""
