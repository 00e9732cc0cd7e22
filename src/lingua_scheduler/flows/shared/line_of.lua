-- In which line of a group a job waits: "x" if some of its nodes may not have it, "g" if any may, none if it waits for
-- one node alone.                                                                                                pure
local function line_of(job, ticket)
  local wishes = ticket[TICKET.wishes][1]
  if wishes and wishes[WISHES.strict] == 1 then
    return nil
  end
  return (wishes and #wishes[WISHES.excluded] > 0 or job[JOB.attempt] > 0) and "x" or "g"
end
