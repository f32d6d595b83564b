"""The `oncelog` command. `main` loads only the module of the verb that was asked for."""
