"""Break the Lua line by line and see whether a test notices.

mutants    what can be broken: each change is one small mistake that somebody could make
overlay    how broken Lua gets into a running process
worker     one process that has collected the tests and forks for every mutant
plan       which tests may notice a mutant, and which of them to ask first
fleet      several workers, and who does what next
memory     what an earlier run found out
report     the table, the survivors, and whether somebody has explained them
"""
