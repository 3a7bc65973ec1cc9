-- Adds to a counter and reads both of its buckets, in one step.
-- KEYS: the current bucket, the one before. ARGV: what to add, expiry in ms.
-- Returns both values as text; '' for a bucket that is not there.

-- Doubles, written with all digits they need: INCRBYFLOAT rounds in decimal and gives other sums than the SQLite store.
local value = (tonumber(redis.call('GET', KEYS[1])) or 0) + tonumber(ARGV[1])
local text = string.format('%.15g', value)
if tonumber(text) ~= value then
  text = string.format('%.17g', value)
end
redis.call('SET', KEYS[1], text, 'PX', ARGV[2])
return { text, redis.call('GET', KEYS[2]) or '' }
