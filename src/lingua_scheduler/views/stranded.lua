#!lua flags=no-writes
--[[ stranded: a page of the jobs that wait in a cell, and which of them could go to a node of another one: those that
  lost their node, insist on none, and ask nobody yet.
  KEYS  jobs · queue
  ARGV  now_ms rules, then for each: { cursor count }         (cursor "" = from the start)
  OUT   STRANDED cursor { job_id pair }                       (cursor "" = it was the last page)                     ]]
-- include: ticket_of
local answers = {}

for i = 3, #ARGV do
  local cursor, count = unpack(cmsgpack.unpack(ARGV[i]))
  local from = cursor == "" and "[w" or "(" .. cursor
  local page, found = redis.call("ZRANGEBYLEX", KEY.queue, from, "(x", "LIMIT", 0, count), {}
  for _, place in ipairs(page) do
    local pair, job_id = string.match(place, "^w(.+):%d+:([^:]+)$")
    local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id))
    if job[JOB.state] == "RETRYING" and job[JOB.cell] == "" then
      local wishes = ticket_of(job_id)[TICKET.wishes][1]
      if not wishes or wishes[WISHES.strict] == 0 then
        found[#found + 1] = { job_id, pair }
      end
    end
  end
  answers[#answers + 1] = cmsgpack.pack({ "STRANDED", #page == count and page[count] or "", found })
end
return answers
