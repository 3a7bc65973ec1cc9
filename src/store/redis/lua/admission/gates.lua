
-- Windows and gates.

local function is_past(at, now, window)
  return at <= now - window or (at > now + CLOCK_SLACK and at ~= NEVER)
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

-- Brings the sums of a route and its account to the present, once: time stands still within a batch.
local function freshen(route)
  local account, now = route.account, route.group.now
  route.fresh = true
  if is_past(route.oldest, now, MINUTE) then
    route.minute, route.minute_tokens, route.oldest =
      drop_past(route.log, now, MINUTE, route.minute, route.minute_tokens)
    route.dirty = true
  end
  if not account.fresh then
    account.fresh = true
    if is_past(account.oldest, now, MINUTE) then
      local tokens
      account.minute, tokens, account.oldest = drop_past(account.log, now, MINUTE, account.minute, 0)
      account.dirty = true
    end
  end
  if sliding and is_past(route.day_oldest, now, DAY) then
    route.day, route.day_tokens, route.day_oldest =
      drop_past(route.day_log, now, DAY, route.day, route.day_tokens)
    route.dirty = true
  end
end

local function billed(tokens, multiplier)
  if tokens <= 0 then
    return 0
  end
  return ceil(tokens * multiplier)
end

-- Whether every gate passes. A comparison with NaN, "no limit", is false. Keep in step with `refusals`.
local function passes(tokens, route, rpm, rpd, tpm, tpd, account_rpm, account_rpd, account_tpd, multiplier, concurrency)
  local account = route.account
  if not route.fresh then
    freshen(route)
  end
  local flight, flight_tokens = route.flight, route.flight_tokens + tokens
  local account_flight = account.flight
  return not (
    route.benched >= route.group.now
    or account_flight >= concurrency
    or route.minute + flight >= rpm
    or route.day + flight >= rpd
    or route.minute_tokens + flight_tokens > tpm
    or route.day_tokens + flight_tokens > tpd
    or account.minute + account_flight >= account_rpm
    or account.day + account_flight >= account_rpd
    or (
      account_tpd == account_tpd
      and account.billed + billed(account.flight_tokens, multiplier) + billed(tokens, multiplier) > account_tpd
    )
  )
end

-- When so much of a window has left it that `excess` is gone. `field`: 2 for requests, 3 for tokens.
local function leaves_at(log, now, window, excess, field)
  -- Mostly the first entries are enough.
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

-- Whether leases of a route or account that end by their age let a gate pass before `at`, when usage alone does. `over`:
-- what is too much; `when`: when so much of usage has left; `field`: see leaves_at.
local function ends_sooner(of, over, at, when, field)
  local group = of.group
  local ends = call('ZRANGEBYSCORE', group.queue, '-inf', string.format('(%.0f', at), 'WITHSCORES', 'LIMIT', 0, 1000)
  for _, block in ipairs(group.dirty_blocks) do
    if block.ends_at then
      ends[#ends + 1] = block.name
      ends[#ends + 1] = block.ends_at
    end
  end
  for index = 1, #ends, 2 do
    local ends_at, block = tonumber(ends[index + 1]), block_of(group, ends[index])
    if block and block.state == ACTIVE and block.count > 0 then
      local holder = route_of(group, route_field_of(block.name))
      if holder == of or holder.account == of then
        for _, tokens in pairs(block.leases) do
          over = over - (field == 2 and 1 or tokens)
        end
        if ends_at < at and (over <= 0 or when(over) <= ends_at + 1) then
          return true
        end
      end
    end
  end
  return false
end

-- Axes by number, in the order in which they are asked.
local COOLDOWN, CONCURRENCY, RPM, RPD, TPM, TPD, ACCOUNT_RPM, ACCOUNT_RPD, ACCOUNT_TPD = 0, 1, 2, 3, 4, 5, 6, 7, 8
-- In place of a cooldown's source: the request can never pass.
local IMPOSSIBLE = -1

-- What stands against a candidate that does not pass, appended to `out`: each gate, and when it alone would let it through.
local function refusals(out, index, wanted, route, rpm, rpd, tpm, tpd, account_rpm, account_rpd, account_tpd, multiplier, concurrency)
  local account, group = route.account, route.group
  local now, midnight = group.now, (group.today + 1) * DAY
  -- Whose leases count.
  local of = route

  local function refuse(axis, limit, used, in_flight, retry_at, note)
    out[#out + 1] = pack('<ddddddd', index, axis, limit, used, in_flight, retry_at, note)
  end
  local function at_midnight()
    return midnight
  end
  local function from(log, window, field)
    return function(excess)
      return leaves_at(log, now, window, excess, field)
    end
  end
  -- When usage alone lets it pass, unless leases that end by their age would sooner.
  local function retry_at(over, used, in_flight, when, field)
    if over > used then
      return NAN
    end
    local at = when(over)
    if in_flight > 0 and group.first_end < at and ends_sooner(of, over, at, when, field) then
      return NAN
    end
    return at
  end
  -- Requests stop at the limit.
  local function requests(axis, limit, used, in_flight, when)
    if used + in_flight >= limit then
      if limit <= 0 then
        refuse(axis, limit, used, in_flight, NAN, IMPOSSIBLE)
      else
        refuse(axis, limit, used, in_flight, retry_at(floor(used + in_flight - limit) + 1, used, in_flight, when, 2), 0)
      end
    end
  end
  -- Tokens stop above it.
  local function tokens(axis, limit, used, in_flight, asked, when)
    if used + in_flight + asked > limit then
      if asked > limit then
        refuse(axis, limit, used, in_flight, NAN, IMPOSSIBLE)
      else
        refuse(axis, limit, used, in_flight, retry_at(used + in_flight + asked - limit, used, in_flight, when, 3), 0)
      end
    end
  end

  if route.benched >= now then
    refuse(COOLDOWN, 0, 0, 0, floor(route.benched) + 1, route.source)
  end
  if account.flight >= concurrency then
    refuse(CONCURRENCY, concurrency, 0, account.flight, NAN, concurrency <= 0 and IMPOSSIBLE or 0)
  end
  local when_day, when_day_tokens = at_midnight, at_midnight
  if sliding then
    when_day, when_day_tokens = from(route.day_log, DAY, 2), from(route.day_log, DAY, 3)
  end
  local flight, flight_tokens = route.flight, route.flight_tokens
  requests(RPM, rpm, route.minute, flight, from(route.log, MINUTE, 2))
  requests(RPD, rpd, route.day, flight, when_day)
  tokens(TPM, tpm, route.minute_tokens, flight_tokens, wanted, from(route.log, MINUTE, 3))
  tokens(TPD, tpd, route.day_tokens, flight_tokens, wanted, when_day_tokens)
  of = account
  requests(ACCOUNT_RPM, account_rpm, account.minute, account.flight, from(account.log, MINUTE, 2))
  requests(ACCOUNT_RPD, account_rpd, account.day, account.flight, at_midnight)
  local billed_flight, billed_wanted = billed(account.flight_tokens, multiplier), billed(wanted, multiplier)
  tokens(ACCOUNT_TPD, account_tpd, account.billed, billed_flight, billed_wanted, at_midnight)
end
