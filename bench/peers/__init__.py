"""What users would otherwise take, each doing the same job: nothing, and saying how long it took to get there.

These modules run in an environment of their own (`bench/peers/environment.py`), never in the product's, and import
nothing of the product's. Each is set up as its own documentation recommends for many small jobs, on one worker process,
with uvloop where it is asynchronous, and with shorter polls than its defaults where it polls.
"""
