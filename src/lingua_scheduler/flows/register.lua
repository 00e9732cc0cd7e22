#!lua flags=allow-oom
--[[ register: a node joins, or comes back.
  Same epoch: RESYNC, the ledger is compared with what it runs. A new process: NEW_PROCESS, what the old one had is
  over. Neither: CONTINUED while the node is alive or in a grace, its attempts carried over; else RENEWED, a new epoch,
  its old attempts in limbo. What it runs and the ledger does not know takes slots until it has stopped. A new node
  takes the place of one that is gone if there is no other.
  Of two connections the one speaks for the node that was opened later, whoever is heard first: who comes by an older
  one, or renews a registration that a newer one has replaced, is NODE_REPLACED. If the one that is known was opened
  earlier than the one that renews, the engine has forgotten the last one, and fallen back to it.
  An instance renews it from memory: what it says the node runs takes slots, and nothing that is known is dropped.
  KEYS  nodes · profiles · standing · room · groups · signatures · pairs · ends · intents · departed · jobs · guests ·
        leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { node_id credential epoch process connection max reported acks tells nonce
        capability running about renewed_by opened_ms stamp }
                            (running false, stamp 0 = not told; renewed_by "" = nobody; opened_ms 0 = at this moment)
  OUT   REGISTERED how epoch standing { pairs } { cancel: { job attempt } } crowded replaced
                                                               (replaced: the connection that spoke for it until now)
        NODE_ID_CONFLICT | CELL_FULL | NODE_REPLACED | HOME_GONE (gone: the home with this stamp was given up)      ]]
-- include: clock, damp, node_at, put_node, restand, look_again, served_pairs, signature_of, group_is_refused
-- include: take_word, take_intent, join_group, leave_group, leases_of, move_on, move_leases_on, settle_running, admit
-- include: has_let_go, slots_of, make_room, nonce_of, serve, write_tally
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

local function comes_in(node_id, stamp)
  if stamp > 0 and stamp <= tonumber(redis.call("HGET", KEY.departed, node_id) or 0) then
    return "HOME_GONE"
  elseif make_room(now, rules) then
    return "NEW"
  end
  if stamp > 0 then
    -- include: shut_out
    -- Whoever is told so looks for another home, and nobody may come in by this one any more.
    shut_out(node_id, stamp, now)
  end
  return "CELL_FULL"
end

-- Whether another connection speaks for the node that was opened later. One that will be opened in time to come was
-- stamped by a clock that is not ours, before a fail-over: it keeps nobody out who comes anew. Over HTTP each request
-- is a connection of its own, which has no name.
local function is_late(profile, connection, opened, renewing)
  local last = profile[PROFILE.opened_ms]
  if connection ~= "" and connection == profile[PROFILE.connection] then
    return false
  end
  return renewing and opened <= last or opened < last and last <= now
end

local function who_is_it(node_id, node, profile, credential, epoch, process, stamp)
  if not node then
    return comes_in(node_id, stamp)
  end
  if credential ~= profile[PROFILE.credential] then
    return node[NODE.lost_at_ms] == 0 and "NODE_ID_CONFLICT" or "NEW_PROCESS"
  end
  if epoch ~= "" and epoch == node[NODE.epoch] then
    return "RESYNC"
  end
  if process ~= "" and process ~= profile[PROFILE.process] then
    return "NEW_PROCESS"
  end
  -- Of those who are silent nobody knows that they are gone, however long it is, before they are given up.
  local may_live = node[NODE.away_until_ms] == 0 or now < node[NODE.away_until_ms] or node[NODE.unheard] == 1
  return node[NODE.lost_at_ms] == 0 and may_live and "CONTINUED" or "RENEWED"
end

local function new_node(node_id)
  local node = NEW.node
  node[NODE.intent], node[NODE.limit] = take_intent(node_id)
  known_nodes[node_id], indexed[node_id] = node, { 0, STANDING.not_ready }
  redis.call("ZADD", KEY.standing, STANDING.not_ready, node_id)
  return node
end

-- A node that was cut off and registers is believed once more: what it has yet to confirm gets a new time limit.
local function wait_again(node_id)
  for _, entry in ipairs(leases_of(node_id)) do
    if redis.call("HEXISTS", KEY.limbo, entry[1]) == 1 then
      redis.call("ZADD", KEY.due, "NX", now + rules[RULE.limbo_ttl_ms], "l:" .. entry[1])
    end
  end
end

-- What a node names it has accepted. Of a guest its home hears that from the node itself.
local function imply_ack(job_id)
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job = packed and cmsgpack.unpack(packed)
  if job and SOURCES.ACCEPTED[job[JOB.state]] then
    job[JOB.state], job[JOB.accepted_at_ms] = "ACCEPTED", now
    redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  end
end

-- In its grace nobody looked at the time of its attempts; now somebody does. Gives them.
local function watch_again(node_id)
  local current = {}
  for _, entry in ipairs(leases_of(node_id)) do
    if redis.call("HEXISTS", KEY.limbo, entry[1]) == 0 then
      redis.call("ZADD", KEY.due, "XX", "LT", now, "j:" .. entry[2])
      current[#current + 1] = entry
    end
  end
  return current
end

-- Nobody knows whether these were written to a node that has another socket now and cannot say what it works on. Nobody
-- will write them any more, and it may never answer: they go on at once, and if it has them its slots are taken.
local function send_elsewhere(attempts)
  for _, entry in ipairs(attempts) do
    local packed = redis.call("HGET", KEY.jobs, entry[2])
    local job = packed and cmsgpack.unpack(packed)
    if job and job[JOB.state] == "RESERVED" then
      move_on(entry[2], job, CAUSE.unsent, CAUSE.unsent.name, now, rules)
    end
  end
end

for i = 3, #ARGV do
  local item = cmsgpack.unpack(ARGV[i])
  local node_id, credential, epoch, process, connection, max, reported, acks, tells, nonce = unpack(item)
  local capability, running, about, renewed_by, opened, stamp = unpack(item, 11)
  opened = opened > 0 and opened or now
  local node = node_at(node_id)
  local packed = redis.call("HGET", KEY.profiles, node_id)
  local known = packed and cmsgpack.unpack(packed)
  local is_replaced = known and is_late(known, connection, opened, renewed_by ~= "")
  local how = is_replaced and "NODE_REPLACED" or who_is_it(node_id, node, known, credential, epoch, process, stamp)
  local goes_on = how == "RESYNC" or how == "CONTINUED"
  local profile = NEW.profile
  profile[PROFILE.credential], profile[PROFILE.connection], profile[PROFILE.about] = credential, connection, about
  profile[PROFILE.process] = process == "" and goes_on and known[PROFILE.process] or process
  profile[PROFILE.registered_at_ms], profile[PROFILE.opened_ms], profile[PROFILE.public] = now, opened, true
  take_word(profile, capability)
  local from_memory = known and renewed_by == "instance"
  if known then
    profile[PROFILE.marks] = how == "NEW_PROCESS" and {} or known[PROFILE.marks]
    profile[PROFILE.marking_since_ms] = known[PROFILE.marking_since_ms]
    profile[PROFILE.marked] = known[PROFILE.marked]
  end
  local served = served_pairs(profile)
  local signature = signature_of(profile, served)
  local crowded = group_is_refused(node, signature, served, rules)
  served = crowded and {} or served

  if how == "NODE_ID_CONFLICT" or how == "CELL_FULL" or how == "NODE_REPLACED" or how == "HOME_GONE" then
    answers[#answers + 1] = cmsgpack.pack({ how })
  else
    node = node or new_node(node_id)
    if not goes_on then
      node[NODE.rest_until_ms] = 0
      node[NODE.epoch] = redis.call("HINCRBY", KEY.counts, "epoch", 1) .. "-" .. nonce
    end
    -- What it had is lost with its old life, and nobody has counted that yet. Its socket's close is counted already.
    if how ~= "NEW" and not goes_on and node[NODE.lost_at_ms] == 0 then
      -- include: flap, blame
      if node[NODE.away_until_ms] == 0 or node[NODE.unheard] == 1 then
        flap(node, now, rules)
      end
      blame(node_id, node, "died", now, rules)
    end
    if not goes_on or node[NODE.away_until_ms] > 0 or node[NODE.lost_at_ms] > 0 then
      damp(node_id, node, now, rules)
    end
    local was_cut_off, was_away, left = node[NODE.cut_off] == 1, node[NODE.away_until_ms] > 0, node[NODE.group]
    node[NODE.own_max], node[NODE.reported], node[NODE.acks], node[NODE.tells] = max, reported, acks, tells
    node[NODE.max] = slots_of(node)
    node[NODE.lost_at_ms], node[NODE.seen_at_ms], node[NODE.away_until_ms], node[NODE.cut_off] = 0, now, 0, 0
    node[NODE.nonce], node[NODE.unheard] = nonce_of(connection), 0
    node[NODE.group] = join_group(signature, served, profile)
    redis.call("HSET", KEY.profiles, node_id, cmsgpack.pack(profile))
    if #profile[PROFILE.marks] == 0 then
      redis.call("ZREM", KEY.due, "m:" .. node_id)
    end

    -- What the old process had goes to others, or waits: nobody gets a slot here before what the node itself claims
    -- to run has taken its own.
    if how == "NEW_PROCESS" or how == "RENEWED" then
      node[NODE.reported] = "registering"
      restand(node, now, rules)
      put_node(node_id, node)
      leave_group(left)
      left = node[NODE.group]
      if how == "NEW_PROCESS" then
        move_leases_on(node_id, CAUSE.died_early, CAUSE.died, -1, now, rules)
        running = running or {}
      else
        move_leases_on(node_id, CAUSE.lost_early, CAUSE.lost, -1, now, rules)
      end
      node[NODE.reported] = reported
    end
    local cancel, unnamed, strangers, kept = {}, {}, {}, {}
    if running then
      local fenced_before = from_memory and -1 or now
      cancel, unnamed, strangers, kept = settle_running(node_id, node, running, fenced_before, now, rules)
    end
    if from_memory then
      unnamed, kept = {}, {}
    end
    for _, entry in ipairs(kept) do
      imply_ack(entry[2])
    end
    local back_with = was_away and watch_again(node_id) or {}
    for _, entry in ipairs(strangers) do
      -- What an instance remembers may be older than what the node has said since.
      if not (from_memory and has_let_go(entry[2], entry[3], node_id)) then
        admit(node, entry[1], now, rules)
      end
    end
    if was_cut_off then
      wait_again(node_id)
    end
    node[NODE.ceiling] = math.max(node[NODE.max], node[NODE.used])
    restand(node, now, rules)
    put_node(node_id, node)
    leave_group(left)
    look_again(node_id, node, now, rules)

    for _, entry in ipairs(unnamed) do
      local job_record = redis.call("HGET", KEY.jobs, entry[2])
      local job = job_record and cmsgpack.unpack(job_record)
      local early = job and SOURCES.ACCEPTED[job[JOB.state]]
      if not job then
        -- include: lose_guest
        -- Whether a guest was delivered only its home knows: what is fetched later does not decide it.
        if connection ~= "" then
          lose_guest(entry[2] .. ":" .. entry[3], CAUSE.undelivered, CAUSE.dropped, now, rules)
        end
      elseif not early then
        move_on(entry[2], job, CAUSE.dropped, "dropped", now, rules)
      elseif connection ~= "" then
        move_on(entry[2], job, CAUSE.undelivered, "undelivered", now, rules)
      end
    end
    if goes_on and not running and connection ~= "" then
      send_elsewhere(back_with)
    end
    local last = known and known[PROFILE.connection] or ""
    local answer = { "REGISTERED", how, node[NODE.epoch], node[NODE.standing], served, cancel, crowded }
    answer[8] = last ~= connection and last or ""
    answers[#answers + 1] = cmsgpack.pack(answer)
  end
  serve(now)
end
write_tally()
return answers
