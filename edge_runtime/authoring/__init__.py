"""What a person does to a model before it is released: import, inspect, repair, evaluate."""
