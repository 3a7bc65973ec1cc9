-- Shared admission: operations of one replica, one after the other, in one step of the server and by its clock. All that
-- belongs to one key number, on whatever platform, is a group.
--
-- KEYS, per group:   H  hash: 'g' the group, 'a<platform>' accounts, 'r<length>:<platform><model>' routes, 'l<id>' leases
--                    L  sorted set: lease ids by the time they end
--       per account: A  list: requests of the last minute, oldest first
--       per route:   M  list: requests and tokens of the last minute;  D  of the last 24 hours, where days slide
-- ARGV: a header, a line per account (its group, its platform), a line per route (its account, its model), and a line per
-- operation. Numbers are packed little-endian, doubles unless noted; NaN stands for "none".
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
-- A settled lease is kept only when the server had not given it: settling it again must record nothing.
local ACTIVE, ENDED, SETTLED = 1, 2, 3

-- At most 64 bytes each, so that small hashes stay compact.
local GROUP = '<ddd'
local ACCOUNT = '<I4dI4I4I4dd'
local ROUTE = '<I4dI4dI4I4dddB'
local SLIDING = '<I4dd'
local LEASE = '<BdH'
local EVENT = '<dI4d'

local call, pack, unpack_struct = redis.call, struct.pack, struct.unpack
local floor, ceil, max, sub = math.floor, math.ceil, math.max, string.sub

local time = call('TIME')
local clock = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
local group_count, account_count, route_count, sliding, lease_memory = unpack_struct('<I4I4I4I4d', ARGV[1])
sliding = sliding == 1
local next_line = 2

-- Names ----------------------------------------------------------------------------------------------------------------

local groups, accounts, routes = {}, {}, {}

local function add_account(group, platform, log)
  local account = { group = group, platform = platform, field = 'a' .. platform, log = log }
  group.accounts[platform] = account
  return account
end

local function add_route(account, model, log, day_log)
  local name = #account.platform .. ':' .. account.platform .. model
  local route = { account = account, model = model, field = 'r' .. name, sliding_field = 's' .. name, log = log, day_log = day_log }
  account.group.routes[name] = route
  return route
end

for index = 1, group_count do
  groups[index] = { hash = KEYS[2 * index - 1], queue = KEYS[2 * index], accounts = {}, routes = {}, leases = {} }
end
for index = 1, account_count do
  local line = ARGV[next_line]
  next_line = next_line + 1
  accounts[index] = add_account(groups[unpack_struct('<I4', line)], sub(line, 5), KEYS[2 * group_count + index])
end
for index = 1, route_count do
  local line = ARGV[next_line]
  next_line = next_line + 1
  local key = 2 * group_count + account_count + 2 * index
  routes[index] = add_route(accounts[unpack_struct('<I4', line)], sub(line, 5), KEYS[key - 1], KEYS[key])
end

-- Reading --------------------------------------------------------------------------------------------------------------

local function decode_account(account, text)
  local day
  if text then
    account.flight, account.flight_tokens, account.minute, day, account.day, account.billed, account.oldest =
      unpack_struct(ACCOUNT, text)
  else
    account.flight, account.flight_tokens, account.minute, account.oldest = 0, 0, 0, NEVER
  end
  if day ~= account.group.today then
    account.day, account.billed = 0, 0
  end
  account.added = 0
end

local function decode_route(route, text, sliding_text)
  local day
  if text then
    route.flight, route.flight_tokens, route.minute, route.minute_tokens, day, route.day, route.day_tokens, route.oldest, route.benched, route.source =
      unpack_struct(ROUTE, text)
  else
    route.flight, route.flight_tokens, route.minute, route.minute_tokens = 0, 0, 0, 0
    route.oldest, route.benched, route.source = NEVER, -1, 0
  end
  if day ~= route.account.group.today then
    route.day, route.day_tokens = 0, 0
  end
  if sliding_text then
    route.sliding, route.sliding_tokens, route.sliding_oldest = unpack_struct(SLIDING, sliding_text)
  else
    route.sliding, route.sliding_tokens, route.sliding_oldest = 0, 0, NEVER
  end
  route.added, route.added_tokens = 0, 0
end

local function read_group(group)
  local names = { 'g' }
  for _, account in pairs(group.accounts) do
    names[#names + 1] = account.field
  end
  for _, route in pairs(group.routes) do
    names[#names + 1] = route.field
    if sliding then
      names[#names + 1] = route.sliding_field
    end
  end
  for id in pairs(group.leases) do
    names[#names + 1] = 'l' .. id
  end
  local texts = call('HMGET', group.hash, unpack(names))
  local by_name = {}
  for index, name in ipairs(names) do
    by_name[name] = texts[index]
  end
  local last = -NEVER
  group.first_end, group.ttl_set = NEVER, -NEVER
  if by_name.g then
    last, group.first_end, group.ttl_set = unpack_struct(GROUP, by_name.g)
  end
  group.now = clock
  if last > clock and last - clock <= CLOCK_SLACK then
    group.now = last
  end
  group.today = floor(group.now / DAY)
  for _, account in pairs(group.accounts) do
    decode_account(account, by_name[account.field])
  end
  for _, route in pairs(group.routes) do
    decode_route(route, by_name[route.field], sliding and by_name[route.sliding_field])
  end
  for id in pairs(group.leases) do
    group.leases[id] = by_name['l' .. id]
  end
  group.set, group.removed, group.queued, group.unqueued = {}, {}, {}, {}
end

-- Routes and accounts of leases, which the caller did not name.
local function account_of(group, platform)
  local account = group.accounts[platform]
  if not account then
    account = add_account(group, platform)
    decode_account(account, call('HGET', group.hash, account.field))
  end
  return account
end

local function route_of(account, model)
  local group = account.group
  local route = group.routes[#account.platform .. ':' .. account.platform .. model]
  if not route then
    route = add_route(account, model)
    local texts = call('HMGET', group.hash, route.field, route.sliding_field)
    decode_route(route, texts[1], sliding and texts[2])
  end
  return route
end

-- Windows --------------------------------------------------------------------------------------------------------------

local function is_past(at, now, window)
  return at <= now - window or at > now + CLOCK_SLACK
end

-- Drops what left a window; returns the sums that stay and the time of the oldest entry.
local function drop_past(log, now, window, count, tokens)
  while true do
    local chunk = call('LRANGE', log, 0, CHUNK - 1)
    local gone = 0
    for _, entry in ipairs(chunk) do
      local at, requests, used = unpack_struct(EVENT, entry)
      if not is_past(at, now, window) then
        call('LTRIM', log, gone, -1)
        return max(count, 0), max(tokens, 0), at
      end
      count, tokens, gone = count - requests, tokens - used, gone + 1
    end
    if gone < CHUNK then
      call('DEL', log)
      return 0, 0, NEVER
    end
    call('LTRIM', log, gone, -1)
  end
end

local function refresh_account(account)
  local now = account.group.now
  if account.oldest ~= NEVER and is_past(account.oldest, now, MINUTE) then
    local tokens
    account.minute, tokens, account.oldest = drop_past(account.log, now, MINUTE, account.minute, 0)
    account.dirty = true
  end
end

local function refresh_route(route)
  local now = route.account.group.now
  if route.oldest ~= NEVER and is_past(route.oldest, now, MINUTE) then
    route.minute, route.minute_tokens, route.oldest =
      drop_past(route.log, now, MINUTE, route.minute, route.minute_tokens)
    route.dirty = true
  end
  if sliding and route.sliding_oldest ~= NEVER and is_past(route.sliding_oldest, now, DAY) then
    route.sliding, route.sliding_tokens, route.sliding_oldest =
      drop_past(route.day_log, now, DAY, route.sliding, route.sliding_tokens)
    route.dirty = true
  end
end

-- When so much of a window has left it that `excess` is gone. `field`: 2 for requests, 3 for tokens.
local function leaves_at(log, now, window, excess, field)
  -- Mostly the first entry is enough.
  local from, size = 0, 4
  while true do
    local chunk = call('LRANGE', log, from, from + size - 1)
    for _, entry in ipairs(chunk) do
      local event = { unpack_struct(EVENT, entry) }
      excess = excess - event[field]
      if excess <= 0 then
        return event[1] + window
      end
    end
    if #chunk < size then
      -- What this batch added is in no list yet.
      return now + window
    end
    from, size = from + size, CHUNK
  end
end

-- Leases ---------------------------------------------------------------------------------------------------------------

local function encode_lease(state, tokens, platform, model)
  return pack(LEASE, state, tokens, #platform) .. platform .. model
end

local function decode_lease(text)
  local state, tokens, length, rest = unpack_struct(LEASE, text)
  return state, tokens, sub(text, rest, rest + length - 1), sub(text, rest + length)
end

local function release(group, tokens, platform, model)
  local account = account_of(group, platform)
  for _, holder in ipairs({ account, route_of(account, model) }) do
    holder.flight = max(holder.flight - 1, 0)
    holder.flight_tokens = holder.flight > 0 and max(holder.flight_tokens - tokens, 0) or 0
    holder.dirty = true
  end
end

-- Leases that were lost with their replica: they count no more, and are remembered for a late settlement.
local function end_leases(group)
  if group.first_end >= group.now then
    return
  end
  local ids
  repeat
    ids = call('ZRANGEBYSCORE', group.queue, '-inf', '(' .. string.format('%.0f', group.now), 'LIMIT', 0, CHUNK)
    for _, id in ipairs(ids) do
      local text = call('HGET', group.hash, 'l' .. id)
      local state, tokens, platform, model
      if text then
        state, tokens, platform, model = decode_lease(text)
      end
      if state == ACTIVE then
        release(group, tokens, platform, model)
        text = encode_lease(ENDED, tokens, platform, model)
        call('HSET', group.hash, 'l' .. id, text)
        call('ZADD', group.queue, group.now + lease_memory, id)
        if group.leases[id] then
          group.leases[id] = text
        end
      else
        call('HDEL', group.hash, 'l' .. id)
        call('ZREM', group.queue, id)
        if group.leases[id] then
          group.leases[id] = false
        end
      end
    end
  until #ids < CHUNK
  local first = call('ZRANGE', group.queue, 0, 0, 'WITHSCORES')
  group.first_end = tonumber(first[2]) or NEVER
  group.dirty = true
end

local function keep_lease(group, id, text, ends_at)
  group.leases[id] = text
  group.set[#group.set + 1] = 'l' .. id
  group.set[#group.set + 1] = text
  group.queued[#group.queued + 1] = ends_at
  group.queued[#group.queued + 1] = id
  if ends_at < group.first_end then
    group.first_end, group.dirty = ends_at, true
  end
end

local function take_lease(route, id, tokens, ends_at)
  local account = route.account
  local group = account.group
  for _, holder in ipairs({ account, route }) do
    holder.flight, holder.flight_tokens, holder.dirty = holder.flight + 1, holder.flight_tokens + tokens, true
  end
  keep_lease(group, id, encode_lease(ACTIVE, tokens, account.platform, route.model), ends_at)
end

-- The state that a lease of this id was in, its tokens; it is gone afterwards.
local function give_back(group, id)
  local text = group.leases[id]
  if not text then
    return 0, 0
  end
  local state, tokens, platform, model = decode_lease(text)
  if state == SETTLED then
    return state, tokens
  end
  if state == ACTIVE then
    release(group, tokens, platform, model)
  end
  group.leases[id] = false
  group.removed[#group.removed + 1] = 'l' .. id
  group.unqueued[#group.unqueued + 1] = id
  return state, tokens
end

-- Whether leases of a route or account that end by their age let a gate pass before `at`, when usage alone does. `over`:
-- what is too much; `when`: when so much of usage has left; `field`: see leaves_at.
local function ends_sooner(of, over, at, when, field)
  local account = of.account or of
  local group = account.group
  local ends = call('ZRANGEBYSCORE', group.queue, '-inf', string.format('(%.0f', at), 'WITHSCORES', 'LIMIT', 0, 1000)
  for index = 1, #group.queued, 2 do
    ends[#ends + 1] = group.queued[index + 1]
    ends[#ends + 1] = group.queued[index]
  end
  for index = 1, #ends, 2 do
    local id, ends_at = ends[index], tonumber(ends[index + 1])
    local text = group.leases[id]
    if text == nil then
      text = call('HGET', group.hash, 'l' .. id)
    end
    if text then
      local state, tokens, platform, model = decode_lease(text)
      if state == ACTIVE and platform == account.platform and (of == account or model == of.model) then
        over = over - (field == 2 and 1 or tokens)
        if ends_at < at and (over <= 0 or when(over) <= ends_at + 1) then
          return true
        end
      end
    end
  end
  return false
end

-- Admission ------------------------------------------------------------------------------------------------------------

-- Axes by number, in the order in which they are asked.
local COOLDOWN, CONCURRENCY, RPM, RPD, TPM, TPD, ACCOUNT_RPM, ACCOUNT_RPD, ACCOUNT_TPD = 0, 1, 2, 3, 4, 5, 6, 7, 8
-- In place of a cooldown's source: the request can never pass.
local IMPOSSIBLE = -1

local function billed(tokens, multiplier)
  if tokens <= 0 then
    return 0
  end
  return ceil(tokens * multiplier)
end

-- What stands against a candidate, appended to `out`; whether anything does.
local function refusals(candidate, out)
  local route = candidate.route
  local account = route.account
  local now = account.group.now
  local midnight = (account.group.today + 1) * DAY
  local found = false
  local function refuse(axis, limit, used, in_flight, retry_at, note)
    found = true
    out[#out + 1] = pack('<ddddddd', candidate.index, axis, limit, used, in_flight, retry_at, note)
  end
  -- Whose leases count.
  local of = route
  -- When usage alone lets it pass, unless leases that end by their age would sooner.
  local function retry_at(over, used, in_flight, when, field)
    if over > used then
      return NAN
    end
    local at = when(over)
    if in_flight > 0 and account.group.first_end < at and ends_sooner(of, over, at, when, field) then
      return NAN
    end
    return at
  end
  -- Requests stop at the limit.
  local function requests(axis, limit, used, in_flight, when)
    if limit == limit and used + in_flight >= limit then
      if limit <= 0 then
        refuse(axis, limit, used, in_flight, NAN, IMPOSSIBLE)
      else
        refuse(axis, limit, used, in_flight, retry_at(floor(used + in_flight - limit) + 1, used, in_flight, when, 2), 0)
      end
    end
  end
  -- Tokens stop above it.
  local function tokens(axis, limit, used, in_flight, wanted, when)
    if limit == limit and used + in_flight + wanted > limit then
      if wanted > limit then
        refuse(axis, limit, used, in_flight, NAN, IMPOSSIBLE)
      else
        refuse(axis, limit, used, in_flight, retry_at(used + in_flight + wanted - limit, used, in_flight, when, 3), 0)
      end
    end
  end
  local function at_midnight()
    return midnight
  end
  local function from(log, window, field)
    return function(excess)
      return leaves_at(log, now, window, excess, field)
    end
  end

  if route.benched >= now then
    refuse(COOLDOWN, 0, 0, 0, floor(route.benched) + 1, route.source)
  end
  local limit = candidate.concurrency
  if limit == limit and account.flight >= limit then
    refuse(CONCURRENCY, limit, 0, account.flight, NAN, limit <= 0 and IMPOSSIBLE or 0)
  end

  refresh_route(route)
  local minute_requests = from(route.log, MINUTE, 2)
  local minute_tokens = from(route.log, MINUTE, 3)
  local day_requests, day_tokens = route.day, route.day_tokens
  local when_day_requests, when_day_tokens = at_midnight, at_midnight
  if sliding then
    day_requests, day_tokens = route.sliding + route.added, route.sliding_tokens + route.added_tokens
    when_day_requests, when_day_tokens = from(route.day_log, DAY, 2), from(route.day_log, DAY, 3)
  end
  local flight, flight_tokens = route.flight, route.flight_tokens
  requests(RPM, candidate.rpm, route.minute + route.added, flight, minute_requests)
  requests(RPD, candidate.rpd, day_requests, flight, when_day_requests)
  tokens(TPM, candidate.tpm, route.minute_tokens + route.added_tokens, flight_tokens, candidate.tokens, minute_tokens)
  tokens(TPD, candidate.tpd, day_tokens, flight_tokens, candidate.tokens, when_day_tokens)

  refresh_account(account)
  local rate = candidate.multiplier
  local billed_flight = billed(account.flight_tokens, rate)
  of = account
  requests(ACCOUNT_RPM, candidate.account_rpm, account.minute + account.added, account.flight, from(account.log, MINUTE, 2))
  requests(ACCOUNT_RPD, candidate.account_rpd, account.day, account.flight, at_midnight)
  tokens(ACCOUNT_TPD, candidate.account_tpd, account.billed, billed_flight, billed(candidate.tokens, rate), at_midnight)
  return found
end

local function record(route, requests, tokens, multiplier)
  local account = route.account
  account.added, account.day = account.added + requests, account.day + requests
  account.billed = account.billed
    + billed(route.day_tokens + tokens, multiplier)
    - billed(route.day_tokens, multiplier)
  route.added, route.added_tokens = route.added + requests, route.added_tokens + tokens
  route.day, route.day_tokens = route.day + requests, route.day_tokens + tokens
  account.dirty, route.dirty = true, true
end

-- Operations -----------------------------------------------------------------------------------------------------------

local operations = {}

-- Admit: how long the lease lasts, candidates, lease id. Answer: the candidate taken (from 0), or -1 and what stands
-- against each: candidate, axis, limit, used, in flight, retry at, source or -1 for never.
function operations.A(line)
  local lasts, count, position = unpack_struct('<dI4', line, 2)
  local candidates = {}
  for index = 1, count do
    local it = { index = index - 1 }
    local route
    route, it.tokens, it.rpm, it.rpd, it.tpm, it.tpd, it.account_rpm, it.account_rpd, it.account_tpd, it.multiplier, it.concurrency, position =
      unpack_struct('<I4dddddddddd', line, position)
    it.route = routes[route]
    candidates[index] = it
  end
  local id = sub(line, position)
  return function()
    local out = { pack('<dd', clock, -1) }
    for _, candidate in ipairs(candidates) do
      local group = candidate.route.account.group
      if not refusals(candidate, out) then
        take_lease(candidate.route, id, candidate.tokens, group.now + lasts)
        return pack('<dd', group.now, candidate.index)
      end
    end
    return table.concat(out)
  end
end

-- Settle: route, tokens, requests, multiplier, tokens when the lease is unknown (NaN: then record nothing), lease id.
-- Answer: 0 nothing recorded; 1 settled; 2 the lease had ended, recorded; 3 unknown, recorded. And the tokens recorded.
function operations.S(line)
  local route, tokens, requests, multiplier, otherwise, position = unpack_struct('<I4dddd', line, 2)
  route = routes[route]
  local id = sub(line, position)
  local group = route.account.group
  group.leases[id] = true
  return function()
    local state, used = give_back(group, id)
    if state == SETTLED or (state == 0 and otherwise ~= otherwise) then
      return pack('<ddd', group.now, 0, 0)
    end
    if state == 0 then
      state, used = SETTLED, otherwise
      local mark = encode_lease(SETTLED, otherwise, route.account.platform, route.model)
      keep_lease(group, id, mark, group.now + lease_memory)
    end
    if tokens == tokens then
      used = tokens
    end
    record(route, requests, used, multiplier)
    return pack('<ddd', group.now, state, used)
  end
end

-- Cancel: route, lease id. Answer: 1 when there was such a lease.
function operations.C(line)
  local route, position = unpack_struct('<I4', line, 2)
  local id = sub(line, position)
  local group = routes[route].account.group
  group.leases[id] = true
  return function()
    local state = give_back(group, id)
    return pack('<dd', group.now, (state == ACTIVE or state == ENDED) and 1 or 0)
  end
end

-- Bench: route, duration (below 0: lift the bench), source. Answer: when it ends.
function operations.B(line)
  local route, duration, source = unpack_struct('<I4dB', line, 2)
  route = routes[route]
  return function()
    route.benched = duration < 0 and -1 or route.account.group.now + duration
    route.source, route.dirty = source, true
    return pack('<dd', route.account.group.now, route.benched)
  end
end

-- Lift every bench of a key: group. Answer: how many.
function operations.U(line)
  local group = groups[unpack_struct('<I4', line, 2)]
  return function()
    local count = 0
    for _, route in pairs(group.routes) do
      if route.benched >= group.now then
        route.benched, route.dirty, count = -1, true, count + 1
      end
    end
    local all = call('HGETALL', group.hash)
    for index = 1, #all, 2 do
      local name = sub(all[index], 2)
      if sub(all[index], 1, 1) == 'r' and not group.routes[name] then
        local length, start = string.match(name, '^(%d+):()')
        local platform = sub(name, start, start + length - 1)
        local route = route_of(account_of(group, platform), sub(name, start + length))
        if route.benched >= group.now then
          route.benched, route.dirty, count = -1, true, count + 1
        end
      end
    end
    return pack('<dd', group.now, count)
  end
end

local pending = {}
for index = next_line, #ARGV do
  pending[#pending + 1] = operations[sub(ARGV[index], 1, 1)](ARGV[index])
end
for _, group in ipairs(groups) do
  read_group(group)
  end_leases(group)
end
local answers = {}
for index, run in ipairs(pending) do
  answers[index] = run()
end

-- Writing --------------------------------------------------------------------------------------------------------------

local function save_account(account, set)
  if account.added > 0 then
    call('RPUSH', account.log, pack(EVENT, account.group.now, account.added, 0))
    call('PEXPIRE', account.log, 2 * MINUTE)
    account.minute = account.minute + account.added
    account.oldest = account.oldest == NEVER and account.group.now or account.oldest
  end
  set[#set + 1] = account.field
  set[#set + 1] = pack(
    ACCOUNT,
    account.flight,
    account.flight_tokens,
    account.minute,
    account.group.today,
    account.day,
    account.billed,
    account.oldest
  )
end

local function save_route(route, set)
  local group = route.account.group
  if route.added > 0 or route.added_tokens > 0 then
    local event = pack(EVENT, group.now, route.added, route.added_tokens)
    call('RPUSH', route.log, event)
    call('PEXPIRE', route.log, 2 * MINUTE)
    route.minute, route.minute_tokens = route.minute + route.added, route.minute_tokens + route.added_tokens
    route.oldest = route.oldest == NEVER and group.now or route.oldest
    if sliding then
      call('RPUSH', route.day_log, event)
      call('PEXPIRE', route.day_log, DAY + HOUR)
      route.sliding, route.sliding_tokens = route.sliding + route.added, route.sliding_tokens + route.added_tokens
      route.sliding_oldest = route.sliding_oldest == NEVER and group.now or route.sliding_oldest
    end
  end
  set[#set + 1] = route.field
  set[#set + 1] = pack(
    ROUTE,
    route.flight,
    route.flight_tokens,
    route.minute,
    route.minute_tokens,
    group.today,
    route.day,
    route.day_tokens,
    route.oldest,
    route.benched,
    route.source
  )
  if sliding then
    set[#set + 1] = route.sliding_field
    set[#set + 1] = pack(SLIDING, route.sliding, route.sliding_tokens, route.sliding_oldest)
  end
end

-- The stack of a script holds some thousands of values.
local function in_parts(command, key, values)
  for first = 1, #values, 4000 do
    call(command, key, unpack(values, first, math.min(first + 3999, #values)))
  end
end

for _, group in ipairs(groups) do
  local set = group.set
  for _, account in pairs(group.accounts) do
    if account.dirty then
      save_account(account, set)
    end
  end
  for _, route in pairs(group.routes) do
    if route.dirty then
      save_route(route, set)
    end
  end
  if #set > 0 or group.dirty or #group.removed > 0 then
    local due = group.now - group.ttl_set > HASH_TTL_STEP
    if due then
      group.ttl_set = group.now
    end
    set[#set + 1] = 'g'
    set[#set + 1] = pack(GROUP, group.now, group.first_end, group.ttl_set)
    in_parts('HSET', group.hash, set)
    in_parts('HDEL', group.hash, group.removed)
    if due then
      call('PEXPIRE', group.hash, HASH_TTL)
    end
    if #group.queued > 0 then
      in_parts('ZADD', group.queue, group.queued)
      call('PEXPIRE', group.queue, HASH_TTL)
    end
    in_parts('ZREM', group.queue, group.unqueued)
  end
end
return answers
