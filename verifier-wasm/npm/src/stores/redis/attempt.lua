-- The same arguments as of consume. Answers the number of this owner's try: how many stand, this
-- one included, when it is first taken, and the same again. 101 stands for too many: 100 owners
-- have tried, or this one took its try back. The try of an owner is a field with its number, or 0
-- once it is taken back.
local key, field = KEYS[1], 'try:' .. ARGV[1]
local number = tonumber(redis.call('HGET', key, field) or -1)
if number == -1 then
  local all, standing = 0, 0
  local fields = redis.call('HGETALL', key)
  for place = 1, #fields, 2 do
    if string.sub(fields[place], 1, 4) == 'try:' then
      all = all + 1
      if fields[place + 1] ~= '0' then standing = standing + 1 end
    end
  end
  number = 0
  if all < 100 then
    number = standing + 1
    redis.call('HSET', key, field, number)
  end
end
if redis.call('PTTL', key) < tonumber(ARGV[2]) then redis.call('PEXPIRE', key, ARGV[2]) end
return number == 0 and 101 or number
