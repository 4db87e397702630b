"""Private database servers for tests, stress runs and the demo."""
