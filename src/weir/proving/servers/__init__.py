"""Private database servers for tests, ``weir stress`` and the demo: own data folder, loopback only, stopped by pid."""
