
-- Operations. Each reads its part of the lines from a place on, appends what it answers, and returns where the next begins.

local operations, answers = {}, {}

-- What is asked for, read once.
local wanted = {}
for at = 1, #asked, ASKED_SIZE do
  local route, rpm, rpd, tpm, tpd, account_rpm, account_rpd, account_tpd, multiplier, concurrency =
    unpack_struct(ASKED, asked, at)
  wanted[#wanted + 1] =
    { routes[route], rpm, rpd, tpm, tpd, account_rpm, account_rpd, account_tpd, multiplier, concurrency }
end

-- Admit: number of candidates, number of the lease; per candidate: tokens, what is asked for. Answer: the candidate taken
-- (from 0), or -1 and what stands against each: candidate, axis, limit, used, in flight, retry at, source or -1 for never.
operations[byte('A')] = function(start)
  local count, lease, first = unpack_struct('<I2I2', lines, start)
  local after = first + 12 * count
  for index = 0, count - 1 do
    local tokens, which = unpack_struct('<dI4', lines, first + 12 * index)
    if passes(tokens, unpack(wanted[which])) then
      take_lease(wanted[which][1], lease, tokens)
      answers[#answers + 1] = pack('<dd', 1, index)
      return after
    end
  end
  local out = {}
  for index = 0, count - 1 do
    local tokens, which = unpack_struct('<dI4', lines, first + 12 * index)
    refusals(out, index, tokens, unpack(wanted[which]))
  end
  answers[#answers + 1] = pack('<dd', 1 + 7 * #out, -1) .. table.concat(out)
  return after
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

-- Settle: block, number of the lease, tokens, requests, multiplier, tokens when the lease is unknown (NaN: then record
-- nothing).
-- Answer: 0 nothing recorded; 1 settled; 2 the lease had ended, recorded; 3 unknown, recorded. And the tokens recorded.
operations[byte('S')] = function(start)
  local which, lease, tokens, requests, multiplier, otherwise, after = unpack_struct('<I4I2dddd', lines, start)
  local block = named[which]
  local state, used = give_back(block, lease)
  if state == 0 then
    if otherwise ~= otherwise or not is_first_settlement(block, lease, otherwise) then
      answers[#answers + 1] = pack('<ddd', 2, 0, 0)
      return after
    end
    state, used = SETTLED, otherwise
  elseif otherwise ~= otherwise then
    -- Ended by a replica that did not give it: the one that did may still come, and knows what the lease held.
    is_first_settlement(block, lease, used)
  end
  if tokens == tokens then
    used = tokens
  end
  record(block.route, requests, used, multiplier)
  answers[#answers + 1] = pack('<ddd', 2, state, used)
  return after
end

-- Cancel: block, number of the lease. Answer: 1 when there was such a lease.
operations[byte('C')] = function(start)
  local which, lease, after = unpack_struct('<I4I2', lines, start)
  answers[#answers + 1] = pack('<dd', 1, give_back(named[which], lease) > 0 and 1 or 0)
  return after
end

-- Bench: route, duration (below 0: lift the bench), source. Answer: when it ends.
operations[byte('B')] = function(start)
  local number, duration, source, after = unpack_struct('<I4dB', lines, start)
  local route = routes[number]
  route.benched = duration < 0 and -1 or route.group.now + duration
  route.source, route.dirty = source, true
  answers[#answers + 1] = pack('<dd', 1, route.benched)
  return after
end

-- Lift every bench of a key: group. Answer: how many.
operations[byte('U')] = function(start)
  local number, after = unpack_struct('<I4', lines, start)
  local group = groups[number]
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
  answers[#answers + 1] = pack('<dd', 1, count)
  return after
end

for _, group in ipairs(groups) do
  read_group(group)
  end_leases(group)
end
local at = 1
while at <= #lines do
  at = operations[byte(lines, at)](at + 1)
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

for _, group in ipairs(groups) do
  local set = {}
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
  save_blocks(group, set)
  if #set > 0 or group.dirty or #group.dirty_blocks > 0 then
    local due = group.now - group.ttl_set > HASH_TTL_STEP
    if due then
      group.ttl_set = group.now
    end
    set[#set + 1] = 'g'
    set[#set + 1] = pack(GROUP, group.now, group.first_end, group.ttl_set, group.queued)
    in_parts('HSET', group.hash, set)
    if due then
      call('PEXPIRE', group.hash, HASH_TTL)
      call('PEXPIRE', group.queue, HASH_TTL)
    end
  end
end
return table.concat(answers)
