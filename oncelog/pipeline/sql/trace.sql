-- Each output record says which input record it came from, which is what the audit asks for.
SELECT key, concat(CAST(partition AS STRING), ':', CAST(offset AS STRING)) AS value FROM source
