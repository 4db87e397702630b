"""How Weir is proved on real databases: private servers, writers, the oracle, stress, the soak's record, the demo."""
