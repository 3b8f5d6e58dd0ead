-- The same arguments as of consume. Takes the try of this owner back; one that comes before its
-- attempt keeps that from counting. Where 100 owners have tried, no attempt counts any more.
local key, field = KEYS[1], 'try:' .. ARGV[1]
local all = 0
for _, other in ipairs(redis.call('HKEYS', key)) do
  if string.sub(other, 1, 4) == 'try:' then all = all + 1 end
end
if all < 100 or redis.call('HEXISTS', key, field) == 1 then redis.call('HSET', key, field, '0') end
if redis.call('PTTL', key) < tonumber(ARGV[2]) then redis.call('PEXPIRE', key, ARGV[2]) end
return 1
