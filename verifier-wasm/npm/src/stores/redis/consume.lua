-- KEYS[1] the use of one token; ARGV[1] for how many milliseconds it is remembered from now.
-- Answers 1 to the first use and 0 to any other.
if redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) then return 1 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 0
