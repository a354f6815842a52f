"""Models on this machine: what lies in the models folder, and the starter model."""
