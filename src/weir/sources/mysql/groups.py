"""From events to transactions: what the binlog groups together, in the order of commits.

A group begins with a GTID event (MariaDB) or BEGIN (MySQL) and ends with an XID event or COMMIT; nothing else ends
one: a SAVEPOINT is a statement inside. Groups never interleave. A prepared XA transaction is a group that ends with
XA PREPARE: its rows wait, perhaps for many visits, until XA COMMIT, and are gone with XA ROLLBACK.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from weir.algebra.catalog import Relation
from weir.sources.mysql import events as e
from weir.sources.mysql.changes import DecodingPlan, WatchedMysqlTable, plan_rows
from weir.sources.mysql.position import BinlogPlace, Gtids
from weir.sources.mysql.statements import Meaning, folding, meaning
from weir.sources.mysql.two_phase import Before
from weir.sources.source import LOAD_AGAIN, LoadAgain, SchemaChanged, SourceError

_XA = re.compile(r"XA\s+(START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\s*(.*)", re.IGNORECASE | re.DOTALL)
_ROLLBACK_TO = re.compile(r"ROLLBACK\s+(?:WORK\s+)?TO\s+(?:SAVEPOINT\s+)?(.*)", re.IGNORECASE | re.DOTALL)
_SAVEPOINT = re.compile(r"SAVEPOINT\s+(.*)", re.IGNORECASE | re.DOTALL)


Includes = Callable[[BinlogPlace, e.Gtid | None], bool]  # whether a position includes what ends there under this GTID


@dataclass
class EventGroup:
    """One transaction as the log has it. ``begin`` is where its first event starts, ``end`` where its commit ends."""

    begin: BinlogPlace
    identifier: str = ""
    rows: list[tuple[bytes, e.TableMap, e.RowsPart]] = field(default_factory=list)
    parts: list[tuple[DecodingPlan, e.RowsPart]] = field(
        default_factory=list
    )  # the rows with their decoders, once it is delivered
    truncated: list[Relation] = field(default_factory=list)
    savepoints: dict[str, int] = field(default_factory=dict)
    standalone: bool = False
    gtid: e.Gtid | None = None
    gtids_before: Gtids = field(default_factory=dict)


class GroupAssembler:
    """Takes the events of the log one by one; ``ready`` holds the finished transactions that touch watched tables."""

    def __init__(self, source: str, database: str, watched: Mapping[str, WatchedMysqlTable], fold_case: bool) -> None:
        self.source = source
        self.database = database
        self.fold_case = fold_case
        self._folded = folding(fold_case)
        self.watched = {self._folded(name): table for name, table in watched.items()}
        self.needed = {name: {n.lower() for n in table.names} for name, table in self.watched.items()}
        self.ready: list[EventGroup] = []
        self.prepared: dict[str, EventGroup] = {}
        self.gtids: Gtids = {}
        self.last_end: BinlogPlace | None = None  # of the last whole group: no snapshot may lie before it
        self.unsettled: dict[
            str, BinlogPlace | None
        ] = {}  # committed XA transactions that may not be visible yet -> where
        self.is_delivered: Includes = lambda end, gtid: False
        # Tables that views follow only after a later position; None: after the next visit's.
        self.late: dict[str, Includes | None] = {}
        self._group: EventGroup | None = None
        self._maps: dict[int, tuple[bytes, e.TableMap | None]] = {}
        self._known_maps: dict[bytes, e.TableMap | None] = {}
        self._plans: dict[tuple[bytes, bytes], DecodingPlan] = {}
        self._moved: dict[
            str, str
        ] = {}  # tables whose columns changed places, with the statement: only names can tell them

    @property
    def inside(self) -> bool:
        """Whether a group is open: the stream cannot be taken up again here."""
        return self._group is not None

    def is_whole_at(self, place: BinlogPlace) -> bool:
        """Whether every_place read so far ended at or before the place, and nothing is half read there."""
        return not self.inside and (self.last_end is None or self.last_end <= place)

    def forget_open_group(self) -> None:
        """The stream is taken up again at the end of the last whole group."""
        if self._group is not None and self._group.gtid is not None:
            self.gtids = dict(self._group.gtids_before)
        self._group = None
        self._maps.clear()

    def feed(self, event: e.BinlogEvent, begin: BinlogPlace, end: BinlogPlace) -> None:
        """One event that lies between two places of the log."""
        was_inside = self.inside
        self._take(event, begin, end)
        if was_inside and not self.inside:
            self.last_end = end

    def _take(self, event: e.BinlogEvent, begin: BinlogPlace, end: BinlogPlace) -> None:
        kind = event.type
        if kind in e.ROWS:
            self._rows(event)
        elif kind == e.TABLE_MAP:
            self._table_map(event)
        elif kind == e.GTID:
            self._gtid(event, begin)
        elif kind == e.XID:
            self._finish(end)
        elif kind in (e.QUERY, e.QUERY_COMPRESSED):
            self._query(event, begin, end)
        elif kind in (e.GTID_MYSQL, e.GTID_ANONYMOUS):
            self._group = EventGroup(begin, standalone=True)
        elif kind == e.XA_PREPARE:
            self._prepare(event, end)
        elif kind not in e.IGNORED:
            self._refuse(event)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _table_map(self, event: e.BinlogEvent) -> None:
        body = event.data[e.HEADER + 8 :]
        if body not in self._known_maps:
            table = e.table_map(body)
            self._known_maps[body] = table if self._is_watched(table) else None
        self._maps[e.table_number(event)] = body, self._known_maps[body]

    def _is_watched(self, table: e.TableMap) -> bool:
        database, name = self._folded(table.database), self._folded(table.table)
        return database == self._folded(self.database) and name in self.watched

    def _rows(self, event: e.BinlogEvent) -> None:
        number = e.table_number(event)
        if number == e.NO_TABLE:
            return
        known = self._maps.get(number)
        if known is None or self._group is None:
            raise SourceError(
                f"source {self.source}: rows without their table or transaction in the binlog; {LOAD_AGAIN}"
            )
        if known[1] is not None:
            self._group.rows.append((known[0], known[1], e.rows_part(event)))

    def _plan(self, body: bytes, table: e.TableMap, part: e.RowsPart) -> DecodingPlan:
        plan = self._plans.get((body, part.present[0]))
        if plan is None:
            if table.names is None and (text := self._moved.get(self._folded(table.table))):
                raise self._changed(table.table, text, nameless=True)
            plan = plan_rows(self.watched[self._folded(table.table)], table, part.present[0])
            self._plans[body, part.present[0]] = plan
        if part.present[-1] != part.present[0]:
            plan_rows(plan.watched, table, part.present[-1])  # names the missing column, if one is needed
            raise SourceError(
                f"the binlog has rows of {plan.watched.relation} with unlike columns before and after an update: a "
                "session wrote with another "
                f"binlog_row_image than FULL. Run SET GLOBAL binlog_row_image = 'FULL', then {LOAD_AGAIN}"
            )
        return plan

    # -- begin and end ------------------------------------------------------------------------------------------------

    def _gtid(self, event: e.BinlogEvent, begin: BinlogPlace) -> None:
        gtid = e.gtid(event)
        self._group = EventGroup(begin, standalone=gtid.standalone, gtid=gtid, gtids_before=dict(self.gtids))
        self.gtids[gtid.domain] = gtid.server, gtid.number

    def _open(self, begin: BinlogPlace) -> None:
        """BEGIN: what follows is not one statement. A GTID before it belongs to it."""
        self._group = self._group or EventGroup(begin)
        self._group.standalone = False

    def _finish(self, end: BinlogPlace) -> None:
        group, self._group = self._group, None
        if group is None:
            raise SourceError(
                f"source {self.source}: a commit without a transaction in the binlog at {end}; {LOAD_AGAIN}"
            )
        self._deliver(group, end, group.gtid)

    def _deliver(self, group: EventGroup, end: BinlogPlace, gtid: e.Gtid | None) -> None:
        """The transaction is committed at ``end``; one that was delivered before a restart is not delivered again."""
        if self.late:
            self._leave_out_late(group, end, gtid)
        if self.is_delivered(end, gtid) or not (group.rows or group.truncated):
            return
        group.identifier = str(gtid or end)
        group.parts = [(self._plan(body, table, part), part) for body, table, part in group.rows]
        group.rows = []
        self.ready.append(group)

    def _leave_out_late(self, group: EventGroup, end: BinlogPlace, gtid: e.Gtid | None) -> None:
        """Nobody follows these tables here yet, and they may have had another shape, or no log, or no rows to tell."""
        group.rows = [row for row in group.rows if not self._is_late(row[1].table, end, gtid)]
        group.truncated = [relation for relation in group.truncated if not self._is_late(relation.table, end, gtid)]

    def _is_late(self, table: str, end: BinlogPlace, gtid: e.Gtid | None) -> bool:
        """``table`` in any spelling that the server takes for it."""
        watched = self.watched.get(self._folded(table))
        if watched is None or watched.relation.table not in self.late:
            return False
        before = self.late[watched.relation.table]
        return before is None or before(end, gtid)

    def _query(self, event: e.BinlogEvent, begin: BinlogPlace, end: BinlogPlace) -> None:
        default, text = e.query(event)
        text = text.strip()
        if text == "BEGIN":
            self._open(begin)
        elif text == "COMMIT":
            self._finish(end)
        elif (what := meaning(text, default, self.database, self.needed, self.fold_case)).kind == "control":
            self._control(text, begin, end)
        else:
            self._act(what, text, end)

    def _control(self, text: str, begin: BinlogPlace, end: BinlogPlace) -> None:
        if match := _XA.match(text):
            self._xa(match[1].upper(), _xid(match[2]), begin, end)
        elif match := _ROLLBACK_TO.match(text):
            self._roll_back_to(_savepoint(match[1]), text)
        elif match := _SAVEPOINT.match(text):
            if self._group is not None:
                self._group.savepoints[_savepoint(match[1])] = len(self._group.rows)
        elif text.upper().startswith("ROLLBACK"):
            self._group = None  # changes of a table without transactions made the server log it; ours are undone

    def _roll_back_to(self, name: str, text: str) -> None:
        if self._group is None or name not in self._group.savepoints:
            raise SourceError(
                f"source {self.source}: '{text}' in the binlog names no savepoint of its transaction; {LOAD_AGAIN}"
            )
        del self._group.rows[self._group.savepoints[name] :]

    def _act(self, what: Meaning, text: str, end: BinlogPlace) -> None:
        """A statement that is not transaction control."""
        gtid = self._group.gtid if self._group else None
        if not self.is_delivered(end, gtid) and not self._is_late(what.table, end, gtid):
            self._stop_if_harmful(what, text)
        if what.kind == "truncate":
            self._truncate(what.table)
        if self._group is not None and self._group.standalone:
            self._finish(end)

    def _stop_if_harmful(self, what: Meaning, text: str) -> None:
        if what.kind == "data":
            raise SourceError(
                f"source {self.source}: a session writes in statement format ({_short(text)}), so the binlog does "
                "not tell which rows changed. "
                f"Run SET GLOBAL binlog_format = 'ROW', see that no session changes it, then {LOAD_AGAIN}"
            )
        if what.kind == "moves" and not self._nameless_rows(what.table) and not self.watched[what.table].has_old:
            self._moved[what.table] = text
        elif what.kind in ("moves", "change"):
            raise self._changed(what.table, text, nameless=what.kind == "moves" and self._nameless_rows(what.table))

    def _changed(self, table: str, text: str, nameless: bool) -> SchemaChanged:
        hint = " (with SET GLOBAL binlog_row_metadata = 'FULL' columns that no view needs may come and go)"
        changed = f"table {self.source}.{table} was changed by: {_short(text)}{hint if nameless else ''}"
        return SchemaChanged(f"{changed}; {LOAD_AGAIN}")

    def _truncate(self, name: str) -> None:
        if self._group is None:
            raise SourceError(f"source {self.source}: TRUNCATE outside a transaction in the binlog; {LOAD_AGAIN}")
        self._group.truncated.append(self.watched[name].relation)

    def _nameless_rows(self, table: str) -> bool:
        """Whether rows of this table came without the columns' names."""
        maps = (known for known in self._known_maps.values() if known is not None)
        return any(self._folded(known.table) == table and known.names is None for known in maps)

    # -- two-phase commit ---------------------------------------------------------------------------------------------

    def _prepare(self, event: e.BinlogEvent, end: BinlogPlace) -> None:
        xid, at_once = e.prepared_xid(event)
        if at_once or self._group is None:
            return self._finish(end)
        group, self._group = self._group, None
        self.prepared[xid] = group
        return None

    def _xa(self, verb: str, xid: str, begin: BinlogPlace, end: BinlogPlace) -> None:
        if verb in ("START", "BEGIN"):
            self._open(begin)
        elif verb in ("COMMIT", "ROLLBACK"):
            self._complete(verb, xid, end)

    def _complete(self, verb: str, xid: str, end: BinlogPlace) -> None:
        completion, self._group = self._group, None
        group, gtid = self.prepared.pop(xid, None), completion.gtid if completion else None
        if verb == "ROLLBACK":
            return
        if group is None or group.rows:
            self.unsettled[xid] = end
        if group is not None:
            self._deliver(group, end, gtid)
        elif not self.is_delivered(end, gtid):
            raise LoadAgain(
                f"source {self.source}: the XA transaction {xid} was committed, but it was prepared before the log "
                "that Weir has read, so its rows "
                f"are not known; {LOAD_AGAIN}"
            )

    def settle(self, before: Before) -> None:
        """A snapshot has been opened: forgets the XA transactions that it surely shows."""
        self.unsettled = {xid: end for xid, end in self.unsettled.items() if not before.shows(xid, end)}

    @property
    def waiting(self) -> EventGroup | None:
        """The earliest prepared transaction: from there on the log must be read again after a restart."""
        return min(self.prepared.values(), key=lambda group: group.begin, default=None)

    def _refuse(self, event: e.BinlogEvent) -> None:
        name = self.source
        if event.type == e.INCIDENT:
            raise LoadAgain(
                f"source {name}: the server says that it lost events of its binlog (an incident event); {LOAD_AGAIN}"
            )
        if event.type in (e.BEGIN_LOAD, e.EXECUTE_LOAD):
            self._act(Meaning("data"), "LOAD DATA", BinlogPlace("", 0))
        if event.type == e.PAYLOAD:
            raise SourceError(
                f"source {name}: compressed transactions in the binlog: SET GLOBAL binlog_transaction_compression = "
                f"OFF, then {LOAD_AGAIN}"
            )
        if event.type == e.PARTIAL_ROWS:
            raise SourceError(
                f"source {name}: partial JSON updates in the binlog: SET GLOBAL binlog_row_value_options = '', then "
                f"{LOAD_AGAIN}"
            )
        e.refuse_unknown(event)


def _xid(text: str) -> str:
    """The name without spaces and options, in lower case but for the X."""
    bare = re.sub(r"\s+", "", text)
    return bare.lower().replace("x'", "X'").removesuffix("onephase")


def _savepoint(text: str) -> str:
    name = text.strip().rstrip(";").strip()
    if name.startswith("`"):
        name = name[1:-1].replace("``", "`")
    return name.lower()


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 200 else flat[:197] + "..."
