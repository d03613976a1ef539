"""`make bench-gate`, `make bench-gate-renew`, `make bench-gate-proof`. Exits with 1 if something is wrong."""

import sys

from bench.gate import instructions, manifest, tripwire


def check(ref: str | None) -> list[str]:
    """Returns the alarms of all parts; prints what each part found, and which part could not run."""
    commit = tripwire.named(ref) if ref else tripwire.base()
    found = manifest.alarms()
    print(f"names         {'as in the manifest' if not found else f'{len(found)} differ from the manifest'}")
    return [*found, *_check_instructions(), *_check_times(commit)]


def _check_instructions() -> list[str]:
    if reason := instructions.why_not():
        print(f"instructions  SKIPPED: {reason}")
        return []
    key, counts = instructions.counted()
    before = instructions.expected(key)
    print(f"instructions  {key}")
    if before is None:
        print("              NOT COMPARED: no expectations for that; `make bench-gate-renew` adds them")
    for name, count in counts.items():
        known = before and before.get(name)
        change = f"{count.instructions / known.instructions - 1:+8.2%}" if known else ""
        print(f"  {name:<46}{count.instructions:>12,.0f}{change:>10}{count.formula * 8:>8,.0f} ΔE")
    return instructions.alarms(counts, before) if before else []


def _check_times(commit: str | None) -> list[str]:
    if (reason := tripwire.why_not(commit)) or commit is None:
        print(f"times         SKIPPED: {reason}")
        return []
    found = tripwire.compare(commit)
    print(f"times         against {commit[:12]}")
    for name, ratio in found.items():
        print(f"  {name:<46}{ratio - 1:>+12.1%}")
    return tripwire.alarms(found)


def renew() -> list[str]:
    """Takes the names and the counts of this commit as the expectation."""
    manifest.renew()
    if reason := instructions.why_not():
        print(f"instructions  SKIPPED: {reason}")
        return []
    key, counts = instructions.counted()
    instructions.renew(key, counts)
    print(f"renewed for {key}")
    return []


def prove() -> list[str]:
    """Makes each path slower by 5 % and returns an alarm for each that the gate does not notice."""
    if reason := instructions.why_not():
        print(f"SKIPPED: {reason}")
        return []
    _, before = instructions.counted()
    _, slowed = instructions.counted(instructions.SLOWDOWN)
    seen = instructions.alarms(slowed, before)
    print("\n".join(seen))
    return [f"{name}: slower by 5 %, and not noticed" for name in before if not any(name in alarm for alarm in seen)]


def main(command: str = "", ref: str = "") -> None:
    """Runs one command."""
    match command:
        case "renew":
            alarms = renew()
        case "prove":
            alarms = prove()
        case _:
            alarms = check(ref or None)
    if alarms:
        sys.exit("\n".join(("ALARM", *(f"  {alarm}" for alarm in alarms))))


if __name__ == "__main__":
    main(*sys.argv[1:])
