
-- Operations. Each reads its line and answers.

local CANDIDATE = '<I4dddddddddd'

local operations = {}

-- Admit: how long the lease lasts, candidates, lease id. Answer: the candidate taken (from 0), or -1 and what stands
-- against each: candidate, axis, limit, used, in flight, retry at, source or -1 for never.
function operations.A(line)
  local lasts, count, first = unpack_struct('<dI4', line, 2)
  -- The lease id follows the candidates: 84 bytes each.
  local id = sub(line, first + 84 * count)
  local at = first
  for index = 0, count - 1 do
    local route, tokens, rpm, rpd, tpm, tpd, a_rpm, a_rpd, a_tpd, multiplier, concurrency, next_at =
      unpack_struct(CANDIDATE, line, at)
    route = routes[route]
    if passes(route, tokens, rpm, rpd, tpm, tpd, a_rpm, a_rpd, a_tpd, multiplier, concurrency) then
      take_lease(route, id, tokens, lasts)
      return pack('<dd', route.group.now, index)
    end
    at = next_at
  end
  local out = { pack('<dd', clock, -1) }
  at = first
  for index = 0, count - 1 do
    local route, tokens, rpm, rpd, tpm, tpd, a_rpm, a_rpd, a_tpd, multiplier, concurrency, next_at =
      unpack_struct(CANDIDATE, line, at)
    refusals(out, index, routes[route], tokens, rpm, rpd, tpm, tpd, a_rpm, a_rpd, a_tpd, multiplier, concurrency)
    at = next_at
  end
  return table.concat(out)
end

local function record(route, requests, tokens, multiplier)
  local account = route.account
  if not route.fresh then
    freshen(route)
  end
  local day_tokens = sliding and route.utc_day_tokens or route.day_tokens
  account.billed = account.billed + billed(day_tokens + tokens, multiplier) - billed(day_tokens, multiplier)
  account.added, account.minute, account.day =
    account.added + requests, account.minute + requests, account.day + requests
  route.added, route.added_tokens = route.added + requests, route.added_tokens + tokens
  route.minute, route.minute_tokens = route.minute + requests, route.minute_tokens + tokens
  route.day, route.day_tokens = route.day + requests, route.day_tokens + tokens
  if sliding then
    route.utc_day, route.utc_day_tokens = route.utc_day + requests, route.utc_day_tokens + tokens
  end
  account.dirty, route.dirty = true, true
end

-- Settle: route, tokens, requests, multiplier, tokens when the lease is unknown (NaN: then record nothing), lease id.
-- Answer: 0 nothing recorded; 1 settled; 2 the lease had ended, recorded; 3 unknown, recorded. And the tokens recorded.
function operations.S(line)
  local route, tokens, requests, multiplier, otherwise, rest = unpack_struct('<I4dddd', line, 2)
  local id = sub(line, rest)
  route = routes[route]
  local group = route.group
  local state, used = give_back(group, id)
  if state == SETTLED or (state == 0 and otherwise ~= otherwise) then
    return pack('<ddd', group.now, 0, 0)
  end
  if state == 0 then
    state, used = SETTLED, otherwise
    keep_lease(group, id, encode_lease(SETTLED, otherwise, route.field), group.now + lease_memory)
  end
  if tokens == tokens then
    used = tokens
  end
  record(route, requests, used, multiplier)
  return pack('<ddd', group.now, state, used)
end

-- Cancel: route, lease id. Answer: 1 when there was such a lease.
function operations.C(line)
  local route, rest = unpack_struct('<I4', line, 2)
  local group = routes[route].group
  local state = give_back(group, sub(line, rest))
  return pack('<dd', group.now, (state == ACTIVE or state == ENDED) and 1 or 0)
end

-- Bench: route, duration (below 0: lift the bench), source. Answer: when it ends.
function operations.B(line)
  local route, duration, source = unpack_struct('<I4dB', line, 2)
  route = routes[route]
  local now = route.group.now
  route.benched = duration < 0 and -1 or now + duration
  route.source, route.dirty = source, true
  return pack('<dd', now, route.benched)
end

-- Lift every bench of a key: group. Answer: how many.
function operations.U(line)
  local group = groups[unpack_struct('<I4', line, 2)]
  for _, field in ipairs(call('HKEYS', group.hash)) do
    if sub(field, 1, 1) == 'r' then
      route_of(group, field)
    end
  end
  local count = 0
  for _, route in ipairs(group.routes) do
    if route.benched >= group.now then
      route.benched, route.dirty, count = -1, true, count + 1
    end
  end
  return pack('<dd', group.now, count)
end

-- Leases that are named are read with everything else. What follows the route differs.
local LEASE_ID_AT = { S = 38, C = 6 }
local first_operation = 2 + account_count + route_count
for index = first_operation, #ARGV do
  local line = ARGV[index]
  local id_at = LEASE_ID_AT[sub(line, 1, 1)]
  if id_at then
    local group, id = routes[unpack_struct('<I4', line, 2)].group, sub(line, id_at)
    if group.leases[id] == nil then
      group.leases[id] = false
      group.lease_ids[#group.lease_ids + 1] = id
    end
  end
end
for _, group in ipairs(groups) do
  read_group(group)
  end_leases(group)
end
local answers = {}
for index = first_operation, #ARGV do
  local line = ARGV[index]
  answers[#answers + 1] = operations[sub(line, 1, 1)](line)
end

-- Writing

local function save_account(account, set)
  local now = account.group.now
  if account.added > 0 then
    call('RPUSH', account.log, pack(EVENT, now, account.added, 0))
    call('PEXPIRE', account.log, 2 * MINUTE)
    account.oldest = account.oldest == NEVER and now or account.oldest
  end
  local flight, flight_tokens, minute = account.flight, account.flight_tokens, account.minute
  set[#set + 1] = account.field
  set[#set + 1] =
    pack(ACCOUNT, flight, flight_tokens, minute, account.group.today, account.day, account.billed, account.oldest)
end

local function save_route(route, set)
  local now = route.group.now
  local day, day_tokens = route.day, route.day_tokens
  local event
  if route.added > 0 or route.added_tokens > 0 then
    event = pack(EVENT, now, route.added, route.added_tokens)
    call('RPUSH', route.log, event)
    call('PEXPIRE', route.log, 2 * MINUTE)
    route.oldest = route.oldest == NEVER and now or route.oldest
  end
  if sliding then
    if event then
      call('RPUSH', route.day_log, event)
      call('PEXPIRE', route.day_log, DAY + HOUR)
      route.day_oldest = route.day_oldest == NEVER and now or route.day_oldest
    end
    set[#set + 1] = 's' .. route.field
    set[#set + 1] = pack(SLIDING, day, day_tokens, route.day_oldest)
    day, day_tokens = route.utc_day, route.utc_day_tokens
  end
  local flight, flight_tokens, minute, minute_tokens =
    route.flight, route.flight_tokens, route.minute, route.minute_tokens
  local today, oldest = route.group.today, route.oldest
  set[#set + 1] = route.field
  set[#set + 1] =
    pack(ROUTE, flight, flight_tokens, minute, minute_tokens, today, day, day_tokens, oldest, route.benched, route.source)
end

-- The stack of a script holds some thousands of values.
local function in_parts(command, key, values)
  for first = 1, #values, 4000 do
    call(command, key, unpack(values, first, math.min(first + 3999, #values)))
  end
end

for _, group in ipairs(groups) do
  local set = group.set
  for _, account in ipairs(group.accounts) do
    if account.dirty then
      save_account(account, set)
    end
  end
  for _, route in ipairs(group.routes) do
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
      -- The queue may have been empty, and is a new key then.
      call('PEXPIRE', group.queue, HASH_TTL)
    end
    in_parts('ZREM', group.queue, group.unqueued)
  end
end
return answers
