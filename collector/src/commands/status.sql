-- What the queue holds, in the members of `mailroom status --json`.
SELECT pg_catalog.json_build_object(
    'queue', pg_catalog.json_build_object(
        'depth', first_due + second_due + later,
        'first_due', first_due,
        'second_due', second_due,
        'later', later,
        'oldest_due_ms', oldest_due_ms
    ),
    'deferred', deferred,
    'unsignable', unsignable,
    'unsigned', unsigned,
    'leases', pg_catalog.json_build_object(
        'batches', leases,
        'tokens', leased_tokens,
        'lapsed', lapsed_leases,
        'oldest_ms', oldest_lease_ms
    ),
    'dead_letters', dead_letters,
    'dead', pg_catalog.json_build_object('last_hour', dead_last_hour),
    'suppressed', suppressed,
    'expired', pg_catalog.json_build_object('logged', expired, 'last_hour', expired_last_hour),
    'collectors', pg_catalog.json_build_object(
        'alive', collectors_alive,
        'lost', collectors_lost,
        'unavailable_ms', unavailable_ms,
        'token_formats', token_formats,
        'misnamed', misnamed,
        'list', collectors
    ),
    'in_doubt', pg_catalog.json_build_object(
        'waiting', in_doubt,
        'last_hour', in_doubt_last_hour,
        'dead_letters', dead_in_doubt,
        'oldest_ms', in_doubt_oldest_ms,
        'dead_last_hour', dead_in_doubt_last_hour
    ),
    'handed_over', pg_catalog.json_build_object(
        'waiting', handed_over,
        'oldest_ms', handed_over_oldest_ms,
        'overdue', handed_over_overdue,
        'overdue_last_hour', handed_over_overdue_last_hour
    ),
    'installation', pg_catalog.json_build_object(
        'name', installation,
        'token_format', token_format,
        'is_of_another_cluster', is_of_another_cluster
    ),
    -- Behind balancers and poolers it is not where the settings say. Unix sockets have no address.
    'server', pg_catalog.json_build_object(
        'database', pg_catalog.current_database(),
        'address', pg_catalog.host(pg_catalog.inet_server_addr()),
        'port', pg_catalog.inet_server_port()
    ),
    'budget', budget,
    'log_since', log_since
)::text
FROM mailroom.status()
