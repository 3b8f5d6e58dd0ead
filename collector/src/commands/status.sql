-- What the queue holds, in the members of `mailroom status --json`. The function is qualified, because nobody may supply a better match.
SELECT pg_catalog.json_build_object(
    'pending', pg_catalog.json_build_object(
        'depth', recoveries_due + activations_due + later,
        'recoveries_due', recoveries_due,
        'activations_due', activations_due,
        'later', later,
        'oldest_due_ms', oldest_due_ms
    ),
    'leases', pg_catalog.json_build_object(
        'batches', leases,
        'tokens', leased_tokens,
        'lapsed', lapsed_leases,
        'oldest_ms', oldest_lease_ms
    ),
    'parked', parked,
    'dead', dead,
    'expired', pg_catalog.json_build_object('logged', expired, 'last_hour', expired_last_hour),
    'log_since', log_since
)::text
FROM mailroom_status()
