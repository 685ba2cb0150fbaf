"""Validated configuration: one YAML file, strict models, located errors."""
