"""JSON Schemas for answers: as a form and as text, a gallery to begin with, schemas from examples and tables."""
