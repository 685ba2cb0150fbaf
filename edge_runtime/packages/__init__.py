"""Model packages: manifest, folder or archive, where the weights come from."""
