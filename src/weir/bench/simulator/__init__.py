"""The simulator measured: how fast it explores, and the spectrum of levels as a table and a picture."""
