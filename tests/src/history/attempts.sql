-- What the log says of each token and attempt.
SELECT token, attempt, outcome::text FROM mailroom.delivery_attempts ORDER BY token, attempt
