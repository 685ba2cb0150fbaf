"""Signed releases: the keys of people, what they sign offline, and what the server takes, keeps fresh and serves.

What people do with their keys (`roles`, `people`, `sealed_key`, `key_directory`, `repository`, `judgement`,
`proposal`, `ceremony`, `packing`, `overlays`, `drafting`) runs on any machine and needs nothing of the server. What
the server does (`catalog`, `online`, `blobs`, `fitness`, `package_check`, `desk`, `expiry`) never sees a person's
private key.
"""
