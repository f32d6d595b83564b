"""Side by side with Apache Kafka and other peers, in one run: the same client, rounds in turn, ratios as figures.

    python -m bench all                                     # everything, within a time budget; writes RESULTS.md
    python -m bench produce --size 100 --peers oncelog,kafka  # one kind of work alone, as a table on the terminal
    python -m bench page                                    # RESULTS.md and its plots again, from results.json

`peers/` has the brokers, `clients/` the load, `works/` one module per kind of work, `report/` the page. The machines
are shared and noisy, so ratios between neighbouring rounds of one run are the figures; absolute numbers only go along.
"""
