-- What happened to a job before its current attempt. A job on its first attempt carries none.
local function past_of(job)
  if #job[JOB.past] == 0 then
    job[JOB.past] = NEW.past
  end
  return job[JOB.past]
end
