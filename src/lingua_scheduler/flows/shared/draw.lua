-- A number from 0 to n - 1, from the job's own seed: the same job on the same fleet chooses the same node, so that
-- tests can say which. Numerical Recipes' generator; all products stay below 2^53.
local function draw(job, n)
  job[JOB.seed] = (job[JOB.seed] * 1664525 + 1013904223) % 4294967296
  return math.floor(job[JOB.seed] / 4294967296 * n)
end
