"""The broker between devices and the server: NATS as a child process, or another one by URL."""
