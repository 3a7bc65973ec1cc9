
-- Leases: a lease is its state, its tokens and its route's field.

-- A settled lease is kept only when the server had not given it: settling it again must record nothing.
local ACTIVE, ENDED, SETTLED = 1, 2, 3
local LEASE = '<Bd'

local function encode_lease(state, tokens, field)
  return pack(LEASE, state, tokens) .. field
end

local function decode_lease(text)
  local state, tokens, rest = unpack_struct(LEASE, text)
  return state, tokens, sub(text, rest)
end

local function drop_flight(holder, tokens)
  holder.flight = max(holder.flight - 1, 0)
  holder.flight_tokens = holder.flight > 0 and max(holder.flight_tokens - tokens, 0) or 0
  holder.dirty = true
end

local function release(group, tokens, field)
  local route = route_of(group, field)
  drop_flight(route, tokens)
  drop_flight(route.account, tokens)
end

-- Leases that were lost with their replica: they count no more, and are remembered for a late settlement.
local function end_leases(group)
  if group.first_end >= group.now then
    return
  end
  local ids
  repeat
    ids = call('ZRANGEBYSCORE', group.queue, '-inf', string.format('(%.0f', group.now), 'LIMIT', 0, CHUNK)
    for _, id in ipairs(ids) do
      local text = call('HGET', group.hash, 'l' .. id)
      local state, tokens, field
      if text then
        state, tokens, field = decode_lease(text)
      end
      if state == ACTIVE then
        release(group, tokens, field)
        text = encode_lease(ENDED, tokens, field)
        call('HSET', group.hash, 'l' .. id, text)
        call('ZADD', group.queue, group.now + lease_memory, id)
      else
        text = false
        call('HDEL', group.hash, 'l' .. id)
        call('ZREM', group.queue, id)
      end
      if group.leases[id] then
        group.leases[id] = text
      end
    end
  until #ids < CHUNK
  local first = call('ZRANGE', group.queue, 0, 0, 'WITHSCORES')
  group.first_end = tonumber(first[2]) or NEVER
  group.dirty = true
end

local function keep_lease(group, id, text, ends_at)
  group.leases[id] = text
  local set, queued = group.set, group.queued
  set[#set + 1] = 'l' .. id
  set[#set + 1] = text
  queued[#queued + 1] = ends_at
  queued[#queued + 1] = id
  if ends_at < group.first_end then
    group.first_end, group.dirty = ends_at, true
  end
end

local function take_lease(route, id, tokens, lasts)
  local account, group = route.account, route.group
  route.flight, route.flight_tokens, route.dirty = route.flight + 1, route.flight_tokens + tokens, true
  account.flight, account.flight_tokens, account.dirty = account.flight + 1, account.flight_tokens + tokens, true
  keep_lease(group, id, encode_lease(ACTIVE, tokens, route.field), group.now + lasts)
end

-- The state that a lease of this id was in, its tokens; it is gone afterwards.
local function give_back(group, id)
  local text = group.leases[id]
  if not text then
    return 0, 0
  end
  local state, tokens, field = decode_lease(text)
  if state == SETTLED then
    return state, tokens
  end
  if state == ACTIVE then
    release(group, tokens, field)
  end
  group.leases[id] = false
  group.removed[#group.removed + 1] = 'l' .. id
  group.unqueued[#group.unqueued + 1] = id
  return state, tokens
end
