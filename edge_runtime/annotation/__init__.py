"""Pictures for people: annotated video, contact sheet."""
