"""A small blocking client on `oncelog.protocol`: what the command line and the Spark sink need, no more."""
