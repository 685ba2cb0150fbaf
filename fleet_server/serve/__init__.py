"""`fleet serve`: one command that runs the HTTP API, the broker and ingest, and ends them."""
