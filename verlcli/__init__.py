"""verlcli."""
