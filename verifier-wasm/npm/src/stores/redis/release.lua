-- The same arguments as of consume. Ends the use of this owner and no other; one that comes before
-- its consume leaves the owner's field, so that this consume gets nothing. Where no owner more can
-- be remembered, a consume gets nothing either. Deleting a field needs no memory, so the use can be
-- given back on a full server, too.
local key, owner = KEYS[1], ARGV[1]
if redis.call('HGET', key, 'holder') == owner then
  redis.call('HDEL', key, 'holder')
elseif redis.call('HEXISTS', key, 'owner:' .. owner) == 0 then
  local owners = 0
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 6) == 'owner:' then owners = owners + 1 end
  end
  if owners < 100 then redis.call('HSET', key, 'owner:' .. owner, '') end
end
if redis.call('PTTL', key) < tonumber(ARGV[2]) then redis.call('PEXPIRE', key, ARGV[2]) end
return 1
