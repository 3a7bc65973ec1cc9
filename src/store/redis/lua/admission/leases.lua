
-- Leases. Those that one step takes of one route are a block, named after both: they end together, and are written at once.

-- A block is remembered after its end, for late settlements. A settlement of a lease that the server had not given is
-- remembered in a settled block of its own: settling it again must record nothing.

local function route_field_of(name)
  return sub(name, string.find(name, ':', 1, true) + 1)
end

local function encode_block(block)
  local texts = { string.char(block.state) }
  for number, tokens in pairs(block.leases) do
    texts[#texts + 1] = pack(LEASE, number, tokens)
  end
  return table.concat(texts)
end

local function drop_flight(holder, tokens)
  holder.flight = max(holder.flight - 1, 0)
  holder.flight_tokens = holder.flight > 0 and max(holder.flight_tokens - tokens, 0) or 0
  holder.dirty = true
end

local function release(route, tokens)
  drop_flight(route, tokens)
  drop_flight(route.account, tokens)
end

-- What the server or this step has of a block.
local function block_of(group, name)
  local block = group.blocks[name]
  if block == nil then
    block = decode_block(name, call('HGET', group.hash, 'l' .. name))
    group.blocks[name] = block
  end
  return block
end

-- Leases that were lost with their replica: they count no more, and are remembered for a late settlement. What is left for
-- the next step counts as in flight until then.
local function end_leases(group)
  if group.first_end >= group.now then
    return
  end
  local names = call('ZRANGEBYSCORE', group.queue, '-inf', string.format('(%.0f', group.now), 'LIMIT', 0, MOST_ENDED)
  for _, name in ipairs(names) do
    local block = block_of(group, name)
    if block and block.state == ACTIVE then
      local route = route_of(group, route_field_of(name))
      for _, tokens in pairs(block.leases) do
        release(route, tokens)
      end
      block.state = ENDED
      call('HSET', group.hash, 'l' .. name, encode_block(block))
      call('ZADD', group.queue, group.now + lease_memory, name)
    else
      group.blocks[name] = false
      call('HDEL', group.hash, 'l' .. name)
      group.queued = max(group.queued - call('ZREM', group.queue, name), 0)
    end
  end
  local first = call('ZRANGE', group.queue, 0, 0, 'WITHSCORES')
  group.first_end = tonumber(first[2]) or NEVER
  group.dirty = true
end

local function new_block_of(group, name, state, ends_at)
  local block = new_block(name, state, ends_at)
  group.blocks[name] = block
  group.first_end = math.min(group.first_end, ends_at)
  return block
end

local function touch(group, block)
  if not block.dirty then
    block.dirty = true
    group.dirty_blocks[#group.dirty_blocks + 1] = block
  end
end

local function add_to_block(group, block, number, tokens)
  block.leases[number], block.count = tokens, block.count + 1
  touch(group, block)
end

local function take_lease(route, number, tokens)
  local account, group = route.account, route.group
  route.flight, route.flight_tokens, route.dirty = route.flight + 1, route.flight_tokens + tokens, true
  account.flight, account.flight_tokens, account.dirty = account.flight + 1, account.flight_tokens + tokens, true
  local name = own_block .. ':' .. route.field
  local block = group.blocks[name] or new_block_of(group, name, ACTIVE, group.now + lasts)
  add_to_block(group, block, number, tokens)
end

-- The state that a lease was in, 0 when there is none, and its tokens; it is gone afterwards.
local function give_back(named_block, number)
  local route = named_block.route
  local group = route.group
  local block = group.blocks[named_block.name]
  local tokens = block and block.leases[number]
  if not tokens then
    return 0, 0
  end
  if block.state == ACTIVE then
    release(route, tokens)
  end
  block.leases[number], block.count = nil, block.count - 1
  touch(group, block)
  return block.state, tokens
end

-- Whether a settlement of a lease that the server had not given is the first of it.
local function is_first_settlement(named_block, number, tokens)
  local group, name = named_block.route.group, '!' .. named_block.name
  local block = block_of(group, name) or new_block_of(group, name, SETTLED, group.now + lease_memory)
  if block.leases[number] then
    return false
  end
  add_to_block(group, block, number, tokens)
  return true
end

-- Writes what changed.
local function save_blocks(group, set)
  local removed, queued, unqueued = {}, {}, {}
  for _, block in ipairs(group.dirty_blocks) do
    local field = 'l' .. block.name
    if block.count > 0 then
      set[#set + 1] = field
      set[#set + 1] = encode_block(block)
      if block.ends_at then
        queued[#queued + 1] = block.ends_at
        queued[#queued + 1] = block.name
      end
    elseif not block.ends_at then
      removed[#removed + 1] = field
      unqueued[#unqueued + 1] = block.name
    end
  end
  in_parts('HDEL', group.hash, removed)
  group.queued = max(group.queued - in_parts('ZREM', group.queue, unqueued), 0)
  if #queued > 0 then
    local was_empty = group.queued == 0
    group.queued = group.queued + in_parts('ZADD', group.queue, queued)
    if was_empty then
      call('PEXPIRE', group.queue, HASH_TTL)
    end
  end
end
