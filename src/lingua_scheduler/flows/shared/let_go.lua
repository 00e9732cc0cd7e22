-- An attempt of the job in another cell is over, or not asked for any more: that cell hears how, and does what follows
-- for the slot there. A late second caller may ask for it until the deadline.
-- include: post
local function let_go(job_id, attempt, cell, node_id, how, deadline, now)
  post("let_go", job_id, attempt, node_id, "", cell .. " " .. how .. " " .. deadline, now)
end
