-- Shared admission: operations of one replica, one after the other, in one step of the server and by its clock. All that
-- belongs to one key number, on whatever platform, is a group. One script in four files: state, leases, gates, operations.
--
-- KEYS, per group:   H  hash: 'g' the group, 'a<platform>' accounts, 'r<length>:<platform><model>' routes, 'l<id>' leases
--                    L  sorted set: lease ids by the time they end
--       per account: A  list: requests of the last minute, oldest first
--       per route:   M  list: requests and tokens of the last minute
--       per route:   D  the same of the last 24 hours, where days slide
-- ARGV: a header; a line per account (its group, its field), a line per route (its account, its field), a line per operation.
-- Numbers are packed little-endian, doubles unless noted; NaN stands for "none".
-- Returns per operation a string of doubles: the time, then the operation's answer.
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

-- At most 64 bytes each, so that small hashes stay compact.
local GROUP = '<ddd'
local ACCOUNT = '<I4dI4I4I4dd'
local ROUTE = '<I4dI4dI4I4dddB'
local SLIDING = '<I4dd'
local EVENT = '<dI4d'

local call, pack, unpack_struct = redis.call, struct.pack, struct.unpack
local floor, ceil, max, sub = math.floor, math.ceil, math.max, string.sub

local time = call('TIME')
local clock = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
local group_count, account_count, route_count, sliding, lease_memory = unpack_struct('<I4I4I4I4d', ARGV[1])
sliding = sliding == 1

-- What the caller names

local groups, accounts, routes = {}, {}, {}

-- Tables are made with all their fields: growing one field by field costs more than the decision.
local function add_account(group, field, log)
  local account = {
    group = group,
    field = field,
    log = log,
    flight = 0,
    flight_tokens = 0,
    minute = 0,
    added = 0,
    oldest = NEVER,
    day = 0,
    billed = 0,
    fresh = false,
    dirty = false,
  }
  group.accounts[#group.accounts + 1] = account
  group.by_field[field] = account
  return account
end

local function add_route(account, field, log, day_log)
  local group = account.group
  local route = {
    group = group,
    account = account,
    field = field,
    log = log,
    day_log = day_log,
    flight = 0,
    flight_tokens = 0,
    minute = 0,
    minute_tokens = 0,
    added = 0,
    added_tokens = 0,
    oldest = NEVER,
    day = 0,
    day_tokens = 0,
    benched = -1,
    source = 0,
    fresh = false,
    dirty = false,
  }
  group.routes[#group.routes + 1] = route
  group.by_field[field] = route
  return route
end

for index = 1, group_count do
  groups[index] = {
    hash = KEYS[2 * index - 1],
    queue = KEYS[2 * index],
    accounts = {},
    routes = {},
    by_field = {},
    leases = {},
    lease_ids = {},
    now = clock,
    today = 0,
    first_end = NEVER,
    ttl_set = -NEVER,
    set = {},
    removed = {},
    queued = {},
    unqueued = {},
    dirty = false,
  }
end
for index = 1, account_count do
  local line = ARGV[1 + index]
  accounts[index] = add_account(groups[unpack_struct('<I4', line)], sub(line, 5), KEYS[2 * group_count + index])
end
for index = 1, route_count do
  local line = ARGV[1 + account_count + index]
  local key = 2 * group_count + account_count + index
  local day_log = sliding and KEYS[key + route_count] or nil
  routes[index] = add_route(accounts[unpack_struct('<I4', line)], sub(line, 5), KEYS[key], day_log)
end

-- What the server has of it

local function decode_account(account, text)
  if text then
    local day
    account.flight, account.flight_tokens, account.minute, day, account.day, account.billed, account.oldest =
      unpack_struct(ACCOUNT, text)
    if day ~= account.group.today then
      account.day, account.billed = 0, 0
    end
  end
end

local function decode_route(route, text)
  if text then
    local day
    route.flight, route.flight_tokens, route.minute, route.minute_tokens, day, route.day, route.day_tokens, route.oldest, route.benched, route.source =
      unpack_struct(ROUTE, text)
    if day ~= route.group.today then
      route.day, route.day_tokens = 0, 0
    end
  end
end

-- Where days slide, the sliding sums are what the day's gates count.
local function decode_sliding(route, text)
  route.utc_day, route.utc_day_tokens = route.day, route.day_tokens
  if text then
    route.day, route.day_tokens, route.day_oldest = unpack_struct(SLIDING, text)
  else
    route.day, route.day_tokens, route.day_oldest = 0, 0, NEVER
  end
end

local function read_group(group)
  local names, at = { 'g' }, 1
  for _, account in ipairs(group.accounts) do
    at = at + 1
    names[at] = account.field
  end
  for _, route in ipairs(group.routes) do
    at = at + 1
    names[at] = route.field
  end
  for _, id in ipairs(group.lease_ids) do
    names[#names + 1] = 'l' .. id
  end
  if sliding then
    for _, route in ipairs(group.routes) do
      names[#names + 1] = 's' .. route.field
    end
  end
  local texts = call('HMGET', group.hash, unpack(names))
  local last = -NEVER
  if texts[1] then
    last, group.first_end, group.ttl_set = unpack_struct(GROUP, texts[1])
  end
  if last > clock and last - clock <= CLOCK_SLACK then
    group.now = last
  end
  group.today = floor(group.now / DAY)
  at = 1
  for _, account in ipairs(group.accounts) do
    at = at + 1
    decode_account(account, texts[at])
  end
  for _, route in ipairs(group.routes) do
    at = at + 1
    decode_route(route, texts[at])
  end
  for _, id in ipairs(group.lease_ids) do
    at = at + 1
    group.leases[id] = texts[at]
  end
  if sliding then
    for _, route in ipairs(group.routes) do
      at = at + 1
      decode_sliding(route, texts[at])
    end
  end
end

-- A route by its field, named by the caller or not.
local function route_of(group, field)
  local route = group.by_field[field]
  if route then
    return route
  end
  local length, start = string.match(field, '^r(%d+):()')
  local account_field = 'a' .. sub(field, start, start + length - 1)
  local account = group.by_field[account_field]
  if not account then
    account = add_account(group, account_field)
    decode_account(account, call('HGET', group.hash, account_field))
  end
  route = add_route(account, field)
  local texts = call('HMGET', group.hash, field, 's' .. field)
  decode_route(route, texts[1])
  if sliding then
    decode_sliding(route, texts[2])
  end
  return route
end
