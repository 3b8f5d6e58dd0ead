-- KEYS[1] the tries of one token's code; ARGV[1] for how many milliseconds they are remembered from now.
-- Answers the number of this try. No counter is ever seen without its end: a script runs as one command.
local number = redis.call('INCR', KEYS[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return number
