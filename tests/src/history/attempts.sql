-- What the log says of each token and attempt.
SELECT token, attempt, outcome::text FROM handovers ORDER BY token, attempt
