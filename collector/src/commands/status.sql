SELECT
    recoveries_due,
    activations_due,
    later,
    oldest_due_ms,
    leases,
    leased_tokens,
    lapsed_leases,
    oldest_lease_ms,
    parked,
    dead,
    expired,
    expired_last_hour,
    log_since
FROM mailroom_status()
