-- $1 namespace, $2 id in hexadecimal. The tries stay counted.
UPDATE mailroom_used_tokens SET uses = 0 WHERE namespace = $1::text AND id = decode($2::text, 'hex')
