"""Makes docs/which-policy.md of a sweep: page.py SWEEP.parquet > docs/which-policy.md (needs pyarrow).

A policy serves a program within a limit if no request of any of the program's inputs fails. Of the policies that get by with the
least limit, the one with the fewest steps a call is chosen. Intervals are 95 %, of Student's t over the inputs. Choices are judged on the
input with most calls, after the same choice without it.
"""

import math
import sys
from collections import defaultdict

import pyarrow.parquet as pq

#: 95 %, two-sided, by degrees of freedom.
T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
NEVER = math.inf
#: What `--on policies` leaves out.
LISTS = ["first-fit-list", "next-fit-list", "best-fit-list", "worst-fit-list"]
#: The commit whose command made the dataset beside the page.
COMMIT = "c137ffe"
#: Programs whose recordings, of other inputs, were looked at when a policy of the table was chosen: dmrt, dmrt-looks and the look of
#: dmrt-fast (studies/fragmentation-traces.toml, studies/peaks-chosen-on.toml, docs/decisions/holes-that-dmrt-spares.md).
CHOSEN_ON = {
    "awk", "cc1", "cc1plus", "cmake", "gdb", "git-log", "git-repack", "jq", "lua", "objdump", "perl", "python3", "redis", "ruby", "sqlite3",
}


def interval(values, digits=1):
    """The mean and its interval; below zero there is nothing."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:.{digits}f}"
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = T[len(values) - 1] * spread / math.sqrt(len(values))
    return f"{mean:.{digits}f} [{max(0, mean - half):.{digits}f}-{mean + half:.{digits}f}]"


def cells(path):
    """By program, policy and limit: a row an input."""
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in pq.read_table(path).to_pylist():
        if row["error"] is not None:
            raise SystemExit(f"a cell has an error: {row}")
        program = row["trace"].rsplit("-", 1)[0]
        found[program][row["on"]][row["limit"]].append(row)
    return found


def least(limits):
    """The least limit within which all inputs were served."""
    served = [limit for limit, rows in limits.items() if not any(row["failures"] for row in rows)]
    return min(served, default=NEVER)


def shown(limit, largest):
    return f"> {largest:g}" if limit == NEVER else f"{limit:g}"


class Program:
    def __init__(self, name, policies):
        self.name = name
        self.policies = policies
        self.least = {policy: least(limits) for policy, limits in policies.items()}
        rows = next(iter(policies.values()))
        rows = next(iter(rows.values()))
        self.live = [row["peak_live"] for row in rows]
        self.events = [row["events"] for row in rows]
        ours = {policy: limit for policy, limit in self.least.items() if policy != "malloc"}
        self.best = min(ours.values())
        able = [policy for policy, limit in ours.items() if limit == self.best and limit != NEVER]
        self.able = sorted(able, key=lambda policy: sum(self.steps(policy, self.best)))

    def steps(self, policy, limit):
        return [row["steps_mean"] for row in self.policies[policy][limit]]

    def split(self):
        """The program without its input of most calls, and with that only."""
        rows = next(iter(next(iter(self.policies.values())).values()))
        last = max(rows, key=lambda row: (row["events"], row["trace"]))["trace"]

        def only(keep):
            return Program(
                self.name,
                {
                    policy: {limit: [row for row in rows if keep(row)] for limit, rows in limits.items()}
                    for policy, limits in self.policies.items()
                },
            )

        return only(lambda row: row["trace"] != last), only(lambda row: row["trace"] == last)

    def row(self, largest):
        live = f"{min(self.live) / 1024:,.0f}-{max(self.live) / 1024:,.0f}"
        events = f"{min(self.events):,}-{max(self.events):,}"
        if not self.able:
            choice, steps, others = "none", "", ""
        else:
            choice = self.able[0]
            steps = interval(self.steps(choice, self.best))
            others = str(len(self.able) - 1)
        named = [shown(self.least[policy], largest) for policy in ("best-fit", "first-fit", "good-fit", "buddy", "malloc")]
        return f"| {self.name} | {events} | {live} | {choice} | {shown(self.best, largest)} | {others} | {steps} | " + " | ".join(named) + " |"


def share(part, whole):
    """A proportion with Wilson's interval, 95 %."""
    z, p = 1.96, part / whole
    middle = (p + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole)) / (1 + z * z / whole)
    return f"{part} of {whole} programs ({100 * p:.0f} % [{100 * (middle - half):.0f}-{100 * (middle + half):.0f}])"


def sentences(programs, names, largest):
    whole = len(programs)
    at_best = {name: sum(p.least[name] == p.best for p in programs if p.best != NEVER) for name in names if name != "malloc"}
    most = sorted(at_best, key=lambda name: -at_best[name])
    wins = defaultdict(list)
    for program in programs:
        if program.able:
            wins[program.able[0]].append(program.name)
    chosen = sorted(wins, key=lambda name: -len(wins[name]))
    ours = sum(p.least["malloc"] != NEVER for p in programs)
    buddy = sum(p.least["buddy"] != NEVER for p in programs)
    first = [name for name in most if at_best[name] == at_best[most[0]]]
    rest = ", ".join(f"{name} for {at_best[name]}" for name in most[len(first) :])
    halves = [program.split() for program in programs]
    by_others = max(most, key=lambda name: sum(looked_at.least[name] == looked_at.best for looked_at, _ in halves if looked_at.best != NEVER))
    kept = sum(unlooked.least[by_others] == unlooked.best for _, unlooked in halves if unlooked.best != NEVER)
    unseen = [program for program in programs if program.name not in CHOSEN_ON]
    seen = [program.name for program in programs if program.name in CHOSEN_ON]
    tuned = [f"{name} gets by with it for {sum(p.least[name] == p.best for p in unseen if p.best != NEVER)}" for name in ("dmrt", "dmrt-looks")]
    yield (
        f"1. **Where memory is short, choose {first[0]}**: it gets by with the least limit that any policy gets by with for "
        f"{share(at_best[first[0]], whole)}, as do {', '.join(first[1:]) or 'no others'} "
        f"({rest}). Chosen without each program's largest input, it is {by_others}, which gets by with that input's least limit "
        f"for {kept} of {whole} programs. But dmrt and dmrt-looks were chosen with "
        f"recordings of {len(seen)} of these programs in view, of other inputs ({', '.join(seen)}), and of the other {len(unseen)} "
        f"{' and '.join(tuned)}."
    )
    served, fewest, dearer = 0, 0, []
    for looked_at, unlooked in halves:
        if looked_at.able and unlooked.able:
            choice = looked_at.able[0]
            served += choice in unlooked.able
            fewest += choice == unlooked.able[0]
            if choice in unlooked.able:
                steps = [sum(unlooked.steps(policy, unlooked.best)) for policy in (choice, unlooked.able[0])]
                dearer.append(steps[0] / steps[1])
    yield (
        "2. **Where time counts, too**, the fewest steps among those that get by with the least limit are "
        + "; ".join(f"{name}'s for {share(len(wins[name]), whole)}" for name in chosen[:3])
        + f" ({', '.join(wins[chosen[0]])} are {chosen[0]}'s). Chosen without "
        f"a program's largest input, the policy gets by with that input's least limit for {share(served, whole)} and is again the one with the fewest steps for "
        f"{fewest}; where it gets by, it takes at most {max(dearer):.2f} times the fewest."
    )
    yield (
        f"3. **Within {largest:g} times what is alive**, Freehold's malloc, which hands out whole pages and units, serves {share(ours, whole)}, "
        f"and the buddy {share(buddy, whole)}: the malloc is for programs whose memory is large beside its units of 64 KiB, not for regions cut to size."
    )


def main():
    found = cells(sys.argv[1])
    programs = [Program(name, policies) for name, policies in sorted(found.items())]
    names = list(programs[0].policies)
    limits = sorted(programs[0].policies[names[0]])
    largest = limits[-1]
    traces = sum(len(program.live) for program in programs)
    print(
        f"""# Which policy for which program

{len(programs)} programs of Debian with three inputs each ({traces} recordings), under {len(names) - 1} policies and Freehold's malloc, within
{", ".join(f"{limit:g}" for limit in limits)} times the most that a program has alive: {traces * len(names) * len(limits):,} cells, simulated, hence exact for these
recordings. The policies that walk lists ({", ".join(LISTS)}) are left out: each chooses the blocks that the policy without `-list` chooses, in more
steps. Other versions of the programs are other recordings. python3 runs with `PYTHONMALLOC=malloc` and php with `USE_ZEND_ALLOC=0`: else they
would ask malloc only for their own heaps' regions.

"""
    )
    print("\n".join(sentences(programs, names, largest)))
    print(
        f"""
The table: calls and live KiB from the least input to the largest; the policy with the fewest steps a call among those that serve all inputs within the least limit;
that limit; how many others serve within it; its steps a call, the mean of the inputs with its 95 % interval; and the least limit of four policies and the malloc
(`> {largest:g}`: some request failed within every limit). Inputs of one program differ in length, not in kind, so an interval is narrower than the truth for other kinds of input.
Programs with some hundred calls or fewer (awk, diff, sort, xz) are served by almost everything, and decide nothing.

| program | calls | live, KiB | choose | least limit | others | steps a call | best-fit | first-fit | good-fit | buddy | malloc |
|---|---|---|---|---|---|---|---|---|---|---|---|"""
    )
    for program in programs:
        print(program.row(largest))
    print(
        f"""
To make it again, on a Debian with these programs:

```sh
studies/programs/record.sh traces
freehold sweep --traces 'traces/*.fht' --on policies,malloc --limit 1.05,1.1,1.25,1.5,2 --out which-policy
python3 studies/programs/page.py which-policy/sweep.parquet > docs/which-policy.md
```

The dataset, of commit {COMMIT}: [which-policy.parquet](../bench/results/which-policy.parquet), its columns: [columns.md](columns.md#a-cell-sweepparquet-of-freehold-sweep)."""
    )


main()
