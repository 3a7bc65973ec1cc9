
-- What the caller names

local groups, accounts, routes, named = {}, {}, {}, {}

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
    blocks = {},
    block_names = {},
    dirty_blocks = {},
    now = clock,
    today = 0,
    first_end = NEVER,
    ttl_set = -NEVER,
    queued = 0,
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
local block_at = 1
while block_at <= #blocks do
  local number, block, after = unpack_struct('<I4Bc0', blocks, block_at)
  local route = routes[number]
  local group, name = route.group, block .. ':' .. route.field
  named[#named + 1] = { route = route, name = name }
  group.block_names[#group.block_names + 1] = name
  block_at = after
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

local function new_block(name, state, ends_at)
  return { name = name, state = state, ends_at = ends_at, leases = {}, count = 0, dirty = false }
end

local function decode_block(name, text)
  if not text then
    return false
  end
  local block = new_block(name, byte(text), nil)
  for at = 2, #text, LEASE_SIZE do
    local number, tokens = unpack_struct(LEASE, text, at)
    block.leases[number], block.count = tokens, block.count + 1
  end
  return block
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
  for _, name in ipairs(group.block_names) do
    names[#names + 1] = 'l' .. name
  end
  if sliding then
    for _, route in ipairs(group.routes) do
      names[#names + 1] = 's' .. route.field
    end
  end
  local texts = call('HMGET', group.hash, unpack(names))
  local last = -NEVER
  if texts[1] then
    last, group.first_end, group.ttl_set, group.queued = unpack_struct(GROUP, texts[1])
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
  for _, name in ipairs(group.block_names) do
    at = at + 1
    group.blocks[name] = decode_block(name, texts[at])
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

-- The stack of a script holds some thousands of values. Returns the sum of the answers.
local function in_parts(command, key, values)
  local sum = 0
  for first = 1, #values, 4000 do
    sum = sum + call(command, key, unpack(values, first, math.min(first + 3999, #values)))
  end
  return sum
end
