"""Reads the files of a broker that is not running: `dump` shows them, `verify` proves them."""
