
-- The common step: admissions alone, all of which ask for the same first. When nothing has to be brought to the present and
-- all of them pass, counting them is enough. Otherwise, and before anything was written, the rest of the script does it all.

if alike > 0 then
  local field, account_field = sub(ARGV[2 + account_count], 5), sub(ARGV[2], 5)
  local texts = call('HMGET', KEYS[1], 'g', account_field, field)
  if texts[1] and texts[2] and texts[3] then
    local last, first_end, ttl_set, queued = unpack_struct(GROUP, texts[1])
    local account_flight, account_flight_tokens, account_minute, account_today, account_day, billed, account_oldest =
      unpack_struct(ACCOUNT, texts[2])
    local flight, flight_tokens, minute, minute_tokens, today, day, day_tokens, oldest, benched, source =
      unpack_struct(ROUTE, texts[3])
    local _, rpm, rpd, tpm, tpd, account_rpm, account_rpd, account_tpd, multiplier, concurrency =
      unpack_struct(ASKED, asked)
    local this_day, minute_ago = floor(clock / DAY), clock - MINUTE
    -- With the last of them.
    local before, account_before = flight + alike - 1, account_flight + alike - 1
    local tokens, account_tokens = flight_tokens + alike_tokens, account_flight_tokens + alike_tokens
    if
      last <= clock
      and first_end >= clock
      and clock - ttl_set <= HASH_TTL_STEP
      and today == this_day
      and account_today == this_day
      and oldest > minute_ago
      and account_oldest > minute_ago
      and benched < clock
      -- No token cap of the account: what is billed is rounded up request by request.
      and account_tpd ~= account_tpd
      -- A comparison with NaN, "no limit", is false.
      and not (
        account_before >= concurrency
        or minute + before >= rpm
        or day + before >= rpd
        or minute_tokens + tokens > tpm
        or day_tokens + tokens > tpd
        or account_minute + account_before >= account_rpm
        or account_day + account_before >= account_rpd
      )
    then
      local name, ends_at = own_block .. ':' .. field, clock + lasts
      call('ZADD', KEYS[2], ends_at, name)
      if queued == 0 then
        call('PEXPIRE', KEYS[2], HASH_TTL)
      end
      call(
        'HSET',
        KEYS[1],
        'g',
        pack(GROUP, clock, math.min(first_end, ends_at), ttl_set, queued + 1),
        account_field,
        pack(ACCOUNT, account_flight + alike, account_tokens, account_minute, today, account_day, billed, account_oldest),
        field,
        pack(ROUTE, flight + alike, tokens, minute, minute_tokens, today, day, day_tokens, oldest, benched, source),
        'l' .. name,
        string.char(ACTIVE) .. ARGV[#ARGV]
      )
      return string.rep(pack('<dd', 1, 0), alike)
    end
  end
end
