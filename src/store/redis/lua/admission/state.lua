-- Shared admission: operations of one replica, one after the other, in one step of the server and by its clock. All that
-- belongs to one key number, on whatever platform, is a group. One script in six files: state, alike, names, leases,
-- gates, operations.
--
-- KEYS, per group:   H  hash: 'g' the group, 'a<platform>' accounts, 'r<length>:<platform><model>' routes, 's<route>' their
--                       sliding days, 'l<block>:<route>' leases that were taken of a route in one step
--                    L  sorted set: blocks of leases by the time they end
--       per account: A  list: requests of the last minute, oldest first
--       per route:   M  list: requests and tokens of the last minute
--       per route:   D  the same of the last 24 hours, where days slide
-- ARGV: a header; a line per account (its group, its field), a line per route (its account, its field); what is asked for (a
-- route and limits); the operations; blocks that are named (a route, a name); where they are alike, the leases they take.
-- Numbers are packed little-endian, doubles unless noted; NaN stands for "none".
-- Returns doubles: per operation how many, then its answer.
--
-- Sums over the lists are kept in the hash, with the time of the oldest entry: nothing is scanned to decide, an entry is
-- touched when it comes and when it goes. A list that the server evicted counts as empty once its oldest entry would go.

-- Redis 5 and 6 replicate the effects of a script only when told to; later versions always do.
if redis.replicate_commands then
  redis.replicate_commands()
end

local MINUTE, DAY, HOUR = 60000, 86400000, 3600000
-- A clock that went back by less stands still until it has caught up; by more, entries ahead of it are dropped.
local CLOCK_SLACK = 2 * MINUTE
local HASH_TTL, HASH_TTL_STEP = 49 * HOUR, HOUR
local NEVER = math.huge
local NAN = 0 / 0
local CHUNK = 64
-- Blocks of leases that one step ends at most, so that others are not kept waiting.
local MOST_ENDED = 1000

-- At most 64 bytes each, so that small hashes stay compact.
local GROUP = '<dddI4'
local ACCOUNT = '<I4dI4I4I4dd'
local ROUTE = '<I4dI4dI4I4dddB'
local SLIDING = '<I4dd'
local EVENT = '<dI4d'
-- What is asked for: a route, limits of requests and tokens, those of its account, the multiplier, concurrency.
local ASKED, ASKED_SIZE = '<I4ddddddddd', 76
-- A lease in its block: number, tokens. A block is a state and its leases.
local LEASE, LEASE_SIZE = '<I2d', 10
local ACTIVE, ENDED, SETTLED = 1, 2, 3

local call, pack, unpack_struct = redis.call, struct.pack, struct.unpack
local floor, ceil, max, sub, byte = math.floor, math.ceil, math.max, string.sub, string.byte

local time = call('TIME')
local clock = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
local group_count, account_count, route_count, sliding, alike, alike_tokens, lasts, lease_memory, header_end =
  unpack_struct('<I4I4I4I4I4ddd', ARGV[1])
sliding = sliding == 1
local own_block = sub(ARGV[1], header_end)
local asked, lines, blocks =
  ARGV[2 + account_count + route_count], ARGV[3 + account_count + route_count], ARGV[4 + account_count + route_count]
