"""The extraction workspace: an input, an instruction and a schema on the left, the growing table on the right."""
