"""Real verl launches: read from a script, a Hydra YAML or a config of ours, and checked by the same rules."""
