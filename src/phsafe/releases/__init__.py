"""Release folders: file layout, manifest and verification. Public; no code here has access to the data."""
