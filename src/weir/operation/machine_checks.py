"""What a project needs of the machine it runs on: a place that can be written to, Java, Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from weir.algebra.errors import WeirError
from weir.operation.check_report import ERROR, MACHINE, OK, Line, Section
from weir.project.folder import Project, SparkKeys
from weir.warehouse.place import Place

OLDEST_JAVA = 17
INSTALL_JAVA = f"install a Java runtime of version {OLDEST_JAVA} or newer (such as openjdk-17-jre-headless)"
PROBE = "_weir_check"


def check_warehouse(project: Project) -> Section:
    try:
        place = Place.of(project.warehouse_path, project.storage_options())
        problem = _local_problem(Path(place.uri)) if place.is_local else _remote_problem(place)
    except WeirError as wrong:
        problem = str(wrong)
    remedy = "give this account the right to write there, or set another path in [warehouse] of weir.toml"
    line = Line(ERROR, f"cannot be written to: {problem}", remedy) if problem else Line(OK, "can be written to")
    return Section(f"warehouse {project.warehouse_path}", (line,), MACHINE)


def _local_problem(folder: Path) -> str:
    """Tried in the nearest folder that is there; nothing is left behind."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        return f"{nearest} is not a folder"
    try:
        with tempfile.NamedTemporaryFile(dir=nearest, prefix=PROBE):
            return ""
    except OSError as problem:
        return f"{nearest}: {problem.strerror or problem}"


def _remote_problem(place: Place) -> str:
    try:
        with place.files.open_output_stream(PROBE) as stream:
            stream.write(b"weir check")
        place.files.delete_file(PROBE)
    except (OSError, pa.ArrowException) as problem:
        return " ".join(str(problem).split())
    return ""


def check_spark(spark: SparkKeys) -> Section:
    lines = list(_connect_lines() if spark.place.startswith("sc://") else _java_lines())
    return Section(f"spark {spark.place}", tuple(lines), MACHINE)


def _connect_lines() -> Iterator[Line]:
    missing = [name for name in ("grpc", "pandas") if find_spec(name) is None]
    if missing:
        yield Line(ERROR, f"Spark Connect needs the packages {', '.join(missing)}", "pip install 'weir[connect]'")
    else:
        yield Line(OK, "the client's packages are there; the server is contacted when weir runs")


def _java_lines() -> Iterator[Line]:
    java = _java()
    if java is None:
        yield Line(ERROR, "there is no Java, and Spark runs on it", f"{INSTALL_JAVA}, or set JAVA_HOME")
        return
    version = _version(java)
    if version is None:
        yield Line(ERROR, f"{java} does not tell its version", INSTALL_JAVA)
    elif version < OLDEST_JAVA:
        yield Line(ERROR, f"Java {version} at {java} is too old for Spark", INSTALL_JAVA)
    else:
        import pyspark

        yield Line(OK, f"PySpark {pyspark.__version__} on Java {version}")


def _java() -> str | None:
    """As Spark looks for it."""
    home = os.environ.get("JAVA_HOME", "")
    return shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")


def _version(java: str) -> int | None:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match else None
