"""The file level: each side's tools over the other's directories, and each broker on the other's directory."""
