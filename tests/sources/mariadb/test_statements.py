"""What statements in the binlog mean, and what the text of a version tells."""

from __future__ import annotations

import pytest

from weir.sources.mysql.describe import has_right, setting_findings
from weir.sources.mysql.position import BinlogPlace, LogPosition
from weir.sources.mysql.statements import meaning
from weir.sources.mysql.version import Version

CASES = {
    "control": ["BEGIN", "SAVEPOINT `x`", "XA END X'1',X'',1", "ROLLBACK TO s", "/* hi */ COMMIT"],
    "nothing": [
        "CREATE TABLE other (a INT REFERENCES t (a))",
        "DROP TABLE d2.t",
        "TRUNCATE other",
        "ALTER TABLE other ADD t INT",
        "CREATE VIEW t2 AS SELECT 1",
        "ALTER TABLE t ADD KEY (b), COMMENT = 'DROP COLUMN a'",
        "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW DELETE FROM t",
        "FLUSH TABLES t",
        "CREATE DEFINER=`r`@`%` PROCEDURE t() DROP TABLE t",
        "SET PASSWORD FOR t = 'x'",
        "ALTER TABLE t ADD x ENUM('FIRST', 'AFTER')",
        "RENAME USER a TO b",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS x INT",
        "ALTER TABLE `d`.`t` ADD UNIQUE (b), ALGORITHM=INPLACE",
        "DROP INDEX i ON t",
        "ALTER DATABASE d CHARACTER SET latin1",
    ],
    "truncate": [
        "TRUNCATE t",
        "truncate table `D`.`T`",
        "SET STATEMENT max_statement_time=9 FOR TRUNCATE TABLE t",
        "/*!50000 TRUNCATE */ t",
        "TRUNCATE -- x\n t",
    ],
    "moves": [
        "ALTER TABLE t DROP z",
        "ALTER TABLE t ADD x INT AFTER b",
        "ALTER TABLE t ADD x INT, DROP COLUMN IF EXISTS z",
    ],
    "change": [
        "ALTER TABLE t DROP a",
        "ALTER TABLE t DROP COLUMN `A`",
        "ALTER TABLE t MODIFY z INT",
        "ALTER IGNORE TABLE t CHANGE z y INT",
        "DROP DATABASE d",
        "DROP TABLE IF EXISTS x, d.t",
        "RENAME TABLE x TO t",
        "ALTER TABLE x RENAME TO t",
        "ALTER TABLE x EXCHANGE PARTITION p WITH TABLE t",
        "DROP TABLE t /* x */",
        "ALTER TABLE t TRUNCATE PARTITION p",
        "ALTER TABLE t DROP PARTITION p",
        "ALTER TABLE t ENGINE = MyISAM",
        "CREATE OR REPLACE TABLE t (a INT)",
        "ALTER TABLE t ADD x INT REFERENCES p (a) ON DELETE SET NULL",
        "ALTER TABLE t ADD SYSTEM VERSIONING",
        "/*M!100301 DROP TABLE */ t",
        "ALTER TABLE t DISCARD TABLESPACE",
    ],
    "data": [
        "INSERT INTO x VALUES (1)",
        "UPDATE x SET a = 1",
        "CALL p()",
        "WITH q AS (SELECT 1) DELETE FROM x",
        "SELECT f()",
        "LOAD DATA INFILE 'x'",
        "whatever this is",
        "",
    ],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in CASES.items() for text in texts])
def test_meaning(kind: str, text: str) -> None:
    """Each statement, run in database d that has the watched table t (needed: a), means what its kind says."""
    assert meaning(text, "d", "d", {"t": {"a"}}, fold_case=True).kind == kind


@pytest.mark.parametrize(
    ("text", "product", "status", "right", "supported"),
    [
        ("10.11.6-MariaDB-0+deb12u1-log", "MariaDB", "SHOW MASTER STATUS", "BINLOG MONITOR", True),
        ("5.5.5-10.6.21-MariaDB", "MariaDB", "SHOW MASTER STATUS", "BINLOG MONITOR", True),
        ("10.4.1-MariaDB", "MariaDB", "SHOW MASTER STATUS", "REPLICATION CLIENT", False),
        ("11.8.2-MariaDB-ubu2404", "MariaDB", "SHOW MASTER STATUS", "BINLOG MONITOR", True),
        ("8.0.36-0ubuntu0.22.04.1", "MySQL", "SHOW MASTER STATUS", "REPLICATION CLIENT", True),
        ("8.1.0", "MySQL", "SHOW MASTER STATUS", "REPLICATION CLIENT", True),
        ("8.4.2", "MySQL", "SHOW BINARY LOG STATUS", "REPLICATION CLIENT", True),
        ("9.0.1-commercial", "MySQL", "SHOW BINARY LOG STATUS", "REPLICATION CLIENT", True),
        ("5.7.44-log", "MySQL", "SHOW MASTER STATUS", "REPLICATION CLIENT", False),
    ],
)
def test_versions(text: str, product: str, status: str, right: str, supported: bool) -> None:
    """The version's text decides which statement tells the end of the log, which right it needs, and whether it is
    new enough.
    """
    version = Version.parse(text)
    assert (version.product, version.log_status, version.log_right, version.supported) == (
        product,
        status,
        right,
        supported,
    )


def test_settings_of_mysql() -> None:
    """MySQL's own ways to make the log smaller are refused with the setting to change."""
    settings = {
        "log_bin": "ON",
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_transaction_compression": "ON",
        "binlog_row_value_options": "PARTIAL_JSON",
    }
    found = {
        f.remedy.split(" (")[0] for f in setting_findings(Version.parse("8.4.2"), settings) if f.severity == "error"
    }
    assert found == {"SET GLOBAL binlog_transaction_compression = 'OFF'", "SET GLOBAL binlog_row_value_options = ''"}


def test_rights() -> None:
    """A right counts on the whole server or on the database; another database's does not."""
    grants = ["GRANT USAGE ON *.* TO `w`@`%`", "GRANT SELECT, LOCK TABLES ON `shop\\_1`.* TO `w`@`%`"]
    assert has_right(grants, "LOCK TABLES", "shop_1")
    assert not has_right(grants, "LOCK TABLES", "shop")
    assert not has_right(grants, "REPLICATION SLAVE")
    assert has_right(["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"], "REPLICATION SLAVE")


def test_positions_are_ordered_by_number_and_kept_as_text() -> None:
    """File numbers outgrow six digits; a position survives being written down."""
    assert BinlogPlace("b.999999", 500) < BinlogPlace("b.1000000", 4) < BinlogPlace("b.1000000", 5)
    position = LogPosition(
        BinlogPlace("my:bin.000001", 7), BinlogPlace("my:bin.000001", 4), 5, "1", "0-1-2", "0-1-1", ("X'61',X'',1",)
    )
    assert LogPosition.parse(str(position)) == position
