-- KEYS[1] a hash with what is remembered of one link; ARGV[1] the owner of this redemption; ARGV[2]
-- for how many milliseconds from now it is remembered. Answers 1 if this owner has the first use, 0
-- if not, -1 if no owner more can be remembered. Every owner that has or had the use is a field,
-- the one that has it the value of `holder`: one that gave the use back is known by its field, so
-- that a repeat of its command gets nothing.
local key, owner = KEYS[1], ARGV[1]
local holder = redis.call('HGET', key, 'holder')
local answer = 0
if holder == owner then
  answer = 1
elseif not holder and redis.call('HEXISTS', key, 'owner:' .. owner) == 0 then
  local owners = 0
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 6) == 'owner:' then owners = owners + 1 end
  end
  if owners >= 100 then return -1 end
  redis.call('HSET', key, 'owner:' .. owner, '', 'holder', owner)
  answer = 1
end
if redis.call('PTTL', key) < tonumber(ARGV[2]) then redis.call('PEXPIRE', key, ARGV[2]) end
return answer
