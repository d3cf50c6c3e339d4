"""Measured rows, a copy of the configs to change, and the levels that iterations set in profiles: what levels, likeness,
strangers and keys share. A level's rows are predicted once at some numbers around the shipped one; what any part of them asks for
is then read off, so that a level can be set without each suite in turn."""
import csv
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
STEPCAST = os.environ.get("STEPCAST", os.path.join(ROOT, "build/release/stepcast"))
TABLES = os.environ.get("STEPCAST_TABLES", os.path.join(ROOT, "../shared/data/tables"))
LEVELS = os.path.join(HERE, "levels.csv")
FABRIC = "configs/fabrics/default.yaml"
LEFT_OUT = os.path.join(HERE, "left-out.csv")  # the levels without each group of rows, where they differ
# Who published a suite; a suite that is not here has a publisher of its own.
PUBLISHERS = {"dlperf": "OneFlow", "libai-oneflow": "OneFlow", "libai-megatron-lm": "OneFlow", "mbridge": "NVIDIA", "megatron-bridge": "NVIDIA",
              "mbridge-cards-2026b": "NVIDIA", "mcore-moe-recipes": "NVIDIA", "dgxc": "NVIDIA", "nemo": "NVIDIA", "nemo-long": "NVIDIA",
              "nvidia-bert": "NVIDIA", "sc21": "NVIDIA", "korthikanti": "NVIDIA", "bigscience-a100": "BigScience", "bigscience-v100": "BigScience",
              "primus": "AMD", "primus-commits": "AMD", "vtrain-multi": "vTrain", "nvidia-dlrm-pt": "NVIDIA", "nvidia-dlrm-tf2": "NVIDIA", "distributed-embeddings": "NVIDIA", "torchrec": "Meta",
              "torchrec-pipeline": "Meta"}
NEVER_SHRUNK = 5, 2  # configs, sources
NEVER, STRANGE = 9, 0.05  # errors, ln: of what cannot be predicted; from where on a row is a strange one
SCAN, FINE, SPAN = 8, 16, 2  # numbers that are predicted; parts of the way between two; from 1 / SPAN to SPAN times what is shipped


def change(text, key, number):
    """The profile with `number` applied to the value of the key, or without the key where it is None."""
    section, _, name = key.rpartition(".")
    out, block = [], None
    for line in text.splitlines(True):
        top = re.match(r"(\w+):", line)
        block = top[1] if top else block
        place = rf"^(  {name}: *)([^#\n]*?)( *#[^\n]*)?\n" if section and not top else rf"^({name}: *)([^#\n]*?)( *#[^\n]*)?\n"
        found = re.match(place, line) if (block == section if section else top) else None
        if found and number is None:
            continue
        if found:
            line = f"{found[1]}{number(found[2])}{found[3] or ''}\n"
        elif section and top and block == section:
            value = rf"([{{,] *){name}: *([^,}}]*)(, *)?"
            keep = lambda m: f"{m[1]}{name}: {number(m[2])}{m[3] or ''}" if number else m[1] if m[3] else ""
            line = re.sub(value, keep, line).replace("{, ", "{").replace(", }", "}")
        out.append(line)
    text = "".join(out)
    return re.sub(rf"^{section}: *(#[^\n]*)?\n(?!  )", "", text, flags=re.M) if section else text


class Lab:
    """A copy of the configs to change, and the measured rows of all tables by case."""

    def __init__(self, predict=True):
        self.scratch = tempfile.mkdtemp()
        self.configs = os.path.join(self.scratch, "configs")
        shutil.copytree(os.path.join(ROOT, "configs"), self.configs)
        subprocess.run([os.path.join(HERE, "tables"), TABLES, self.scratch], check=True)
        suites = [[word.strip() for word in line.split("|")] for line in open(os.path.join(HERE, "suites-dlrm"), encoding="utf-8") if line[0] != "#"]
        self.heads, self.rows, self.home, self.chains, self.changed = {}, {}, {}, {}, set()
        for path in (os.path.join(self.scratch, "named.csv"), os.path.join(TABLES, "transformer_schedules.csv"), os.path.join(self.scratch, "dlrm.csv")):
            with open(path, encoding="utf-8") as file:
                table = csv.DictReader(file)
                self.heads[path] = table.fieldnames
                for row in table:
                    self.home[row["case"]] = path
                    self.rows[row["case"]] = row
                    if "suite" not in row:
                        row["suite"] = next((words[0] for words in suites if row["source"].startswith(words[-1])), row["source"])
        self.levels = list(csv.DictReader(open(LEVELS, encoding="utf-8")))
        for level in self.levels:
            level["value"], level["trend"], level["asked"] = self.value(level), float(level["trend"]), float(level["asked"])
        self.shipped = self.predict() if predict else {}

    def validate(self, head, rows, *options):
        """Predicts rows of one table; False where none of them can be."""
        table = os.path.join(self.scratch, "chosen.csv")
        with open(table, "w", encoding="utf-8") as file:
            out = csv.DictWriter(file, head, extrasaction="ignore")
            out.writeheader()
            out.writerows(rows)
        done = subprocess.run([STEPCAST, "validate", "-q", os.path.join(self.configs, "base.yaml"), "--table", table, *options],
                              env=os.environ | {"STEPCAST_CONFIGS": self.configs}, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode and "no case could be predicted" not in done.stderr:
            sys.exit(done.stderr)
        return done.returncode == 0

    def validate_cases(self, cases, *options):
        """The same of cases, a table at a time; after each one what it wrote can be read."""
        for path, head in self.heads.items():
            chosen = [self.rows[case] for case in cases if self.home[case] == path]
            if chosen and self.validate(head, chosen, *options):
                yield

    def predict(self, cases=None):
        """{case: ln of predicted over measured}"""
        said, out = {}, os.path.join(self.scratch, "out.csv")
        for _ in self.validate_cases(self.rows if cases is None else cases, "--out-cases", out):
            with open(out, encoding="utf-8") as file:
                said |= {line["case"]: math.log(float(line["predicted_ms"]) / float(line["measured_ms"]))
                         for line in csv.DictReader(file) if line["predicted_ms"]}
        return said

    def set_to(self, numbers):
        """Writes {index of a level: number} into the profiles; the others are as shipped."""
        for name in {self.levels[i]["profile"] for i in numbers} | self.changed:
            with open(os.path.join(ROOT, "configs", name), encoding="utf-8") as file:
                text = file.read()
            for i, number in numbers.items():
                if self.levels[i]["profile"] == name:
                    text = change(text, self.levels[i]["key"], lambda _, number=number: f"{number:g}")
            with open(os.path.join(self.configs, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.changed = {self.levels[i]["profile"] for i in numbers}

    def profiles_of(self, row):
        """The profiles that may speak of a row: its own, their defaults and releases."""
        key, found = (row["training.software"], row["cluster.gpu"]), self.chains
        if key not in found:
            names = [f"software/{key[0]}.yaml", f"devices/{key[1]}.yaml"]
            for name in names:
                with open(os.path.join(ROOT, "configs", name), encoding="utf-8") as file:
                    lines = [line for line in file if re.match(r"defaults:|releases:|  - {.*profile:", line)]
                for folder, other in re.findall(r"(?:defaults: (\w+)/|profile: )([\w.-]*[\w-])", "".join(lines).replace(".yaml", "")):
                    other = f"{folder or 'software'}/{other}.yaml"
                    if other not in names:
                        names.append(other)
            found[key] = set(names)
        return found[key]

    def at(self, i, number, cases=None):
        self.set_to({i: number})
        said = self.predict(cases)
        self.set_to({})
        return said

    def value(self, level):
        found = []
        change(open(os.path.join(self.configs, level["profile"]), encoding="utf-8").read(), level["key"], lambda text: found.append(text) or text)
        if not found:
            sys.exit(f"levels.csv: {level['profile']} has no {level['key']}")
        return float(found[0])

    def count(self, i):
        """The cases that a level moves, at least a third as much as the one that it moves most."""
        level = self.levels[i]
        near = level["profile"].startswith("fabrics")
        moved = self.at(i, level["value"] * 0.8, [case for case, row in self.rows.items() if near or level["profile"] in self.profiles_of(row)])
        move = {case: abs(moved[case] - self.shipped[case]) for case in moved if case in self.shipped}
        level["cases"] = [case for case in move if move[case] > max(1e-6, max(move.values()) / 3)]
        return level["cases"]

    def scan(self, i):
        """Errors of a level's rows at numbers around what is shipped; a rate may be 2 at most, a share of links 1."""
        level = self.levels[i]
        level["most"] = 2 if re.search("power_eff|attention_eff|tf32", level["key"]) else 1 if "eff" in level["key"] else math.inf
        low, high = math.log(level["value"] / SPAN), math.log(min(level["value"] * SPAN, level["most"]))
        level["numbers"] = [math.exp(low + (high - low) * k / SCAN) for k in range(SCAN + 1)]
        said = [self.at(i, number, level["cases"]) for number in level["numbers"]]
        level["costs"] = {}  # by case, at each number and FINE parts of the way to the next; errors between two lie on a straight line
        for case in level["cases"]:
            errors = [result.get(case, NEVER) for result in said]
            between = [(1 - part / FINE) * errors[k] + part / FINE * errors[k + 1] for k in range(SCAN) for part in range(FINE)]
            level["costs"][case] = [math.log1p((error / STRANGE) ** 2) for error in between]
        level["cost"] = [sum(column) for column in zip(*level["costs"].values())]

    def asked(self, i, left_out=()):
        """What a level's rows ask for without some of them: the number with the least cost."""
        level, costs = self.levels[i], list(self.levels[i]["cost"])
        for case in left_out:
            costs = [cost - own for cost, own in zip(costs, level["costs"][case])]
        k, part = divmod(min(range(len(costs)), key=costs.__getitem__), FINE)
        return level["numbers"][k] ** (1 - part / FINE) * level["numbers"][k + 1] ** (part / FINE)

    def without(self, left_out):
        """{index: number} of the levels that rows moved which are left out, set by the rule on the others."""
        numbers = {}
        for i, level in enumerate(self.levels):
            own = [case for case in level["cases"] if case in left_out]
            rest = [case for case in level["cases"] if case not in left_out]
            if not own:
                continue
            fit = level["asked"] * self.asked(i, own) / self.asked(i) if rest else level["trend"]
            number = min(ruled(fit, level["trend"], *self.support(i, rest)), level["most"])
            if abs(number / level["value"] - 1) > 1e-3:
                numbers[i] = number
        return numbers

    def support(self, i, cases):
        rows = [self.rows[case] for case in cases]
        return len(set(map(config_of, rows))), len(sources_of(rows, self.levels[i]))

    def describe(self, i):
        """A level in a line: what it rests on, what its rule gives, and the error of its rows, as shipped and at its trend."""
        level = self.levels[i]
        cases, name = self.count(i), f"{level['profile']} {level['key']}"
        level["rule"] = level["asked"] if level["kept"] else ruled(level["asked"], level["trend"], *self.support(i, cases))
        mape = [statistics.mean(100 * abs(math.expm1(said[case])) for case in cases) if cases else 0 for said in (self.shipped, self.at(i, level["trend"], cases))]
        sources = ", ".join(sorted(sources_of([self.rows[case] for case in cases], level)))
        n, n_sources = self.support(i, cases)
        return f"{name:58} {n:7} {n_sources:7} {level['asked']:7g} {level['trend']:7g} {level['rule']:7g} {level['value']:7g} {mape[0]:7.1f} {mape[1]:8.1f}  {level['kept'] and 'kept; '}{sources[:80]}"

    def scan_all(self):
        self.shipped = self.shipped or self.predict()
        for i in range(len(self.levels)):
            if self.count(i):
                self.scan(i)

    def networks(self):
        """{network between nodes: the cases that its rate moves} of all but the default one."""
        with open(os.path.join(ROOT, FABRIC), encoding="utf-8") as file:
            kinds = re.findall(r"^  - {kind: ([\w-]+),", file.read(), flags=re.M)
        default, found = self.predict(), {}
        for kind in kinds[1:]:
            self.set_network(kind, lambda line: re.sub(r" eff: ([\d.]+)", lambda m: f" eff: {float(m[1]) / 2:g}", line))
            moved = self.predict()
            found[kind] = [case for case, ln in moved.items() if abs(ln - default[case]) > 1e-6]
        self.set_to({})
        return found

    def set_network(self, kind, line_of=None):
        """Gives a network other numbers, those of the default one if not said, until set_to writes others."""
        with open(os.path.join(self.configs, FABRIC.split("/", 1)[1]), "w", encoding="utf-8") as out, open(os.path.join(ROOT, FABRIC), encoding="utf-8") as file:
            lines = file.readlines()
            default = next(line for line in lines if line.startswith("  - {kind: "))
            own = line_of or (lambda line: re.sub(r"kind: [\w-]+", f"kind: {kind}", default))
            out.writelines(own(line) if line.startswith(f"  - {{kind: {kind},") else line for line in lines)
        self.changed.add(FABRIC.split("/", 1)[1])

    def groups(self, networks=True):
        """{name: cases} of suites on GPUs, of softwares, of GPUs and, if wanted, of networks, which takes predictions of all rows."""
        groups = defaultdict(list)
        for case, row in self.rows.items():
            groups[f"{row['suite']} {row['cluster.gpu']}"].append(case)
        for case, row in self.rows.items():
            groups[f"software {row['training.software']}"].append(case)
            groups[f"gpu {row['cluster.gpu']}"].append(case)
        return groups | {f"network {kind}": cases for kind, cases in (self.networks() if networks else {}).items() if cases}

    def numbers_without(self, refit=False):
        """{group: {index of a level: number}}, of left-out.csv or found anew."""
        numbers = defaultdict(dict)
        if refit:
            self.scan_all()
            groups = {name: self.without(set(cases)) for name, cases in self.groups().items()}
            with open(LEFT_OUT, "w", encoding="utf-8") as file:
                out = csv.writer(file, lineterminator="\n")
                out.writerow(["group", "profile", "key", "number"])
                out.writerows([name, self.levels[i]["profile"], self.levels[i]["key"], f"{number:.4g}"]
                              for name, found in groups.items() for i, number in found.items())
        at = {(level["profile"], level["key"]): i for i, level in enumerate(self.levels)}
        with open(LEFT_OUT, encoding="utf-8") as file:
            for row in csv.DictReader(file):
                numbers[row["group"]][at[row["profile"], row["key"]]] = float(row["number"])
        return numbers

    def set_neutral(self):
        """Puts the softwares' switches without their numbers into the configs, until set_to writes others."""
        self.changed |= {f"software/{name}" for name in os.listdir(os.path.join(ROOT, "configs", "software"))}
        shutil.copytree(os.path.join(self.scratch, "neutral", "software"), os.path.join(self.configs, "software"), dirs_exist_ok=True)


def config_of(row):
    """What makes two rows one config: all but who ran it, and what came out."""
    return tuple(sorted((key, text) for key, text in row.items() if key.split(".")[0] in ("cluster", "gpus", "model", "parallel", "training")))


def sources_of(rows, level):
    is_device = level["profile"].startswith("devices")
    if level["key"].startswith("host_"):  # a number of hosts: a cluster is a source, too
        return {f"{PUBLISHERS.get(row.get('suite', ''), row.get('suite', ''))} {row['cluster.gpu']}" for row in rows}
    return {PUBLISHERS.get(row.get("suite", ""), "MLPerf" if row.get("suite", "").startswith("mlperf") else row.get("suite") or row["source"].split(",")[0]) for row in rows} | (
        {row["source"] for row in rows if row.get("suite", "").startswith("mlperf")} if is_device else set())


def ruled(fit, trend, n, n_sources):
    if n >= NEVER_SHRUNK[0] and n_sources >= NEVER_SHRUNK[1]:
        return fit
    weight = n / (n + 5)
    number = trend + weight * (fit - trend) if trend == 0 else trend * (fit / trend) ** weight
    return float(f"{number:.3g}")
