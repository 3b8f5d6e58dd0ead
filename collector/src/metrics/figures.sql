-- How many tokens are in which state, by action, and for how long the oldest of them has been.
SELECT state, action, tokens, oldest FROM mailroom.measure()
