"""The crash matrix: every safety class, at every failpoint, under every disturbance.

Real processes, a real PostgreSQL server, the real target; each cell has a ledger of its
own. Who judges (`checks`) reads the target's table and the ledger's rows, and has no part
in what happens (`playing`).
"""
