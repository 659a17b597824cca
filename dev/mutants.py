#!/usr/bin/env python3
"""Tests the tests: breaks the server in one place at a time, and reports whether a test fails.

    dev/mutants.py check            whether each mutant still fits the sources (no build)
    dev/mutants.py run [NAME...]    builds once, then runs each mutant, or those whose name contains NAME
    dev/mutants.py table            prints the results so far as the table of docs/testing.md

All mutants are compiled into one copy of the sources, and a file says which of them is active: one build serves all, and
also the processes that integration tests start. The results are in WORK/results.json; `run` continues there, `run NAME`
repeats. Run it below `tests/support/postgres.sh run`, which starts PostgreSQL once. Nothing else may use the copy at the same
time. Environment: MUTANTS_LOCK, a file that is locked while cargo runs; BELVEDERE_MUTANTS, the folder WORK (default:
~/.cache/belvedere/mutants).
"""

import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
from mutants_list import MUTANTS

ROOT = Path(__file__).resolve().parent.parent
WORK = Path(os.environ.get("BELVEDERE_MUTANTS", Path.home() / ".cache/belvedere/mutants"))
COPY, ACTIVE, RESULTS = WORK / "sources", WORK / "active", WORK / "results.json"
# The hash of sources with which the tests passed without a mutant.
SOUND = WORK / "sound"
# A round that takes longer hangs, which a developer would notice.
ROUND_SECONDS = 240
# How long the machine is used before others get a turn.
SLICE_SECONDS = 150
# Exit codes of nextest and of timeout.
FAILED_TESTS, TIMED_OUT = 100, 124
SURVIVED = "SURVIVED"

SWITCH = """//! Which mutant is active (dev/mutants.py).
use std::sync::LazyLock;
pub fn is(number: u32) -> bool {
    static ACTIVE: LazyLock<u32> = LazyLock::new(|| {
        std::fs::read_to_string(%s).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    });
    *ACTIVE == number
}
/// A literal, with a part replaced when the mutant is active.
pub fn swap(number: u32, text: &'static str, from: &str, to: &str) -> &'static str {
    if is(number) { Box::leak(text.replacen(from, to, 1).into_boxed_str()) } else { text }
}
"""

STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def fail(message):
    sys.exit(f"error: {message}")


class Misfit(Exception):
    """A mutant's original text is not in the sources, or not only once."""


def apply(mutant, number, text):
    """The source with the mutant."""
    original = mutant["original"]
    # Tests are not mutated, and may contain the same text.
    code = text.split("#[cfg(test)]\nmod tests")[0]
    if code.count(original) != 1:
        raise Misfit(f"{mutant['name']}: the text occurs {code.count(original)} times in {mutant['file']}: {original!r}")
    switch = f"belvedere_base::mutant::is({number})"
    if "sql" in mutant:
        at = code.index(original)
        literal = next((m for m in STRING.finditer(code) if m.start() < at and at + len(original) <= m.end()), None)
        # At run time the text has neither escapes nor the ends of continued lines.
        if literal is None or "\\" in original or "\n" in original:
            raise Misfit(f"{mutant['name']}: the text is not in one string literal")
        swapped = f"belvedere_base::mutant::swap({number}, {literal[0]}, {json.dumps(original)}, {json.dumps(mutant['sql'])})"
        return text[: literal.start()] + swapped + text[literal.end() :]
    if "expression" in mutant:
        changed = f"(if {switch} {{ {mutant['expression']} }} else {{ {original} }})"
    elif "without" in mutant:
        changed = f"if !{switch} {{ {original} }}"
    else:
        changed = mutant["changed"].replace("MUTANT", switch)
    return text.replace(original, changed, 1)


def mutated_sources():
    """The content of every file of the project, with all mutants."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    files = {name: (ROOT / name).read_bytes() for name in names if name and (ROOT / name).is_file()}
    misfits = []
    for number, mutant in enumerate(MUTANTS, 1):
        name = mutant["file"]
        try:
            files[name] = apply(mutant, number, files[name].decode()).encode()
        except Misfit as misfit:
            misfits.append(str(misfit))
    if misfits:
        fail("some mutants do not fit the sources any more; adapt dev/mutants_list.py\n" + "\n".join(misfits))
    quoted = json.dumps(str(ACTIVE))
    files["host/base/src/mutant.rs"] = (SWITCH % quoted).encode()
    rooms = files["host/base/src/lib.rs"].decode()
    files["host/base/src/lib.rs"] = rooms.replace("\npub mod clock;", "\npub mod mutant;\npub mod clock;", 1).encode()
    return files


def copy_sources():
    """Writes the sources with all mutants, and returns their hash. Unchanged files keep their time: cargo builds little."""
    files = mutated_sources()
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        if not name.startswith(("docs/", "dev/")):
            digest.update(name.encode() + content)
        path = COPY / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod((ROOT / name).stat().st_mode if (ROOT / name).exists() else 0o644)
    return digest.hexdigest()


class Turn:
    """The right to use the machine, which others share: MUTANTS_LOCK, given back after each slice of rounds."""

    def __init__(self):
        self.file, self.since = None, 0.0

    def take(self):
        if self.file and time.monotonic() - self.since > SLICE_SECONDS:
            self.give_back()
        if not self.file and (path := os.environ.get("MUTANTS_LOCK")):
            # Those who wait come first.
            time.sleep(1)
            self.file = open(path, "w")
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.since = time.monotonic()

    def give_back(self):
        if self.file:
            self.file.close()
            self.file = None


def nextest(turn, arguments, seconds=None):
    """Runs nextest in the copy. Returns its exit code, or None after that time, and the names of the failed tests."""
    turn.take()
    command = ["cargo", "nextest", "run", "--workspace", "--lib", "--test", "integration", "--no-tests=fail"]
    command = (["timeout", str(seconds)] if seconds else []) + command + arguments
    done = subprocess.run(command, cwd=COPY, capture_output=True, text=True)
    output = done.stdout + done.stderr
    (WORK / "last.log").write_text(output)
    failed = re.findall(r"^\s*(?:FAIL|TIMEOUT|SIG\w+|ABORT) \[.*?\] (?:\(.*?\) )?\S+ (\S+)", output, re.MULTILINE)
    return (None if done.returncode == TIMED_OUT else done.returncode), sorted(set(failed))


def round_of(turn, mutant, number, tests):
    """The test that fails with a mutant; None if it survives."""
    ACTIVE.write_text(str(number))
    code, failed = nextest(turn, ["-E", tests], ROUND_SECONDS)
    if code == 0:
        return None
    if code is None:
        return "the tests hang"
    if code != FAILED_TESTS or not failed:
        fail(f"{mutant['name']}: nextest ended with {code}; see {WORK / 'last.log'}")
    return failed[0]


def run(names):
    sources = copy_sources()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    chosen = [
        (number, mutant)
        for number, mutant in enumerate(MUTANTS, 1)
        if any(name in mutant["name"] for name in names) or (not names and mutant["name"] not in results)
    ]
    turn = Turn()
    # Without a mutant all these tests pass, or a failure says nothing.
    ACTIVE.write_text("0")
    every = " + ".join(sorted({f"({mutant['tests']})" for _, mutant in chosen}))
    if chosen and not (SOUND.exists() and SOUND.read_text() == sources):
        code, failed = nextest(turn, ["-E", every])
        if code != 0:
            fail(f"the tests fail without a mutant: {code} {failed}; see {WORK / 'last.log'}")
        SOUND.write_text(sources)
    for number, mutant in chosen:
        caught = round_of(turn, mutant, number, mutant["tests"])
        if caught is None:
            caught = round_of(turn, mutant, number, mutant["area"])
        results[mutant["name"]] = caught or SURVIVED
        RESULTS.write_text(json.dumps(results, indent=1))
        print(f"{results[mutant['name']]:70} {mutant['name']}", flush=True)
    ACTIVE.write_text("0")
    turn.give_back()
    survivors = [name for name, caught in results.items() if caught == SURVIVED]
    print(f"{len(results)} mutants ran, {len(survivors)} survived")
    return 1 if survivors else 0


def table():
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print("| Mutant | In | Caught by |\n|---|---|---|")
    for mutant in MUTANTS:
        caught = results.get(mutant["name"], "not run")
        path = mutant["file"].split("/src/", 1)[1]
        shown = caught if caught in (SURVIVED, "not run", "the tests hang") else f"`{caught}`"
        print(f"| {mutant['name']} | `{path}` | {shown} |")
    return 0


def main():
    match sys.argv[1:]:
        case ["check"]:
            mutated_sources()
            print(f"{len(MUTANTS)} mutants fit")
            return 0
        case ["run", *names]:
            WORK.mkdir(parents=True, exist_ok=True)
            return run(names)
        case ["table"]:
            return table()
    fail("usage: dev/mutants.py check | run [NAME...] | table")
    return 1


if __name__ == "__main__":
    sys.exit(main())
