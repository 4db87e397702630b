"""Scenarios for the drawing tests: several sources, and texts that are too long for their place."""

from __future__ import annotations

import tomllib

from weir.simulator.scenario import Scenario, parse

THREE_SOURCES = parse(
    tomllib.loads("""
title = "a delete between two hops"
view = \"\"\"CREATE MATERIALIZED VIEW v AS SELECT r1.A, r1.B, r2.C, r3.D
FROM x.r1 JOIN y.r2 ON r1.B = r2.B JOIN z.r3 ON r2.C = r3.C\"\"\"

[tables."x.r1"]
columns = "A int, B int"
rows = "(1, 2)"

[tables."y.r2"]
columns = "B int, C int"

[tables."z.r3"]
columns = "C int, D int"
rows = "(3, 4)"

[[transactions]]
name = "U1"
source = "y"
changes = "+r2(2, 3)"

[[transactions]]
name = "U2"
source = "x"
changes = "-r1(1, 2)"

[[schedules]]
name = "the delete between the hops"
steps = ["U1", "deliver y", "answer x", "deliver x", "U2", "deliver x", "read"]
""")
)


def wordy(sources: int) -> Scenario:
    """Sources with long names, rows with long words, and characters that mean something in XML."""
    names = ["head_office_of_the_company", "crm", "web_shop", "billing"][:sources]
    word, mail = "x" * 90, "Ann <ann@example.org> & Sons"
    tables = {f"{name}.t": {"columns": "id int, word string", "rows": f"(1, '{mail}')"} for name in names}
    joins = "".join(f" JOIN {name}.t AS t{at} ON t0.id = t{at}.id" for at, name in enumerate(names) if at)
    columns = ", ".join(f"t{at}.word AS word{at}" for at in range(sources))
    view = f"CREATE MATERIALIZED VIEW v AS SELECT t0.id, {columns} FROM {names[0]}.t AS t0{joins}"
    transactions = [
        {"name": f"change at {name}", "source": name, "changes": f"-t(1, '{mail}') +t(1, 'many short words {word}')"}
        for name in names
    ]
    return parse({"title": "<long> & wordy", "view": view, "tables": tables, "transactions": transactions})
