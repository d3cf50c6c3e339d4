"""The Python package over a library: tests/python/run. Needs Python alone; with pandas and torchrec it tests more."""

import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import stepcast
from stepcast import _native

GPT = stepcast.example("gpt-22b-selene")
DLRM = stepcast.example("dlrm-dcnv2-h100")


def command(*words):
    out = subprocess.run([os.environ["STEPCAST"], *words], capture_output=True, text=True, check=False)
    if out.returncode not in (0, 3):  # 3: some rows fail
        raise AssertionError(out.stderr)
    return out.stdout


def missing(name):
    try:
        __import__(name)
    except Exception as error:  # of a package that cannot load its own parts, too
        return f"{name}: {type(error).__name__}"
    return ""


class Predict(unittest.TestCase):
    def test_is_the_commands(self):
        want = command("predict", GPT, "--set", "parallel.tp=4", "--explain", "--json")
        self.assertEqual(stepcast.predict(GPT, explain=True, parallel={"tp": 4}).json, want)
        self.assertEqual(stepcast.predict(GPT, explain=True, **{"parallel.tp": 4}).json, want)

    def test_mapping(self):
        config = {
            "cluster": {"gpu": "h100-sxm-80gb", "gpus_per_node": 8},
            "gpus": 8,
            "model": "models/llama3-8b.yaml",
            "parallel": {"tp": 8, "sequence_parallel": True, "pp": None},
            "training": {"global_batch": 8, "precision": "bf16", "software": "megatron-lm"},
        }
        p = stepcast.predict(config)
        self.assertGreater(p.iteration_ms, 0)
        self.assertTrue(p.band_ms[0] < p.iteration_ms < p.band_ms[1])
        self.assertAlmostEqual(sum(p.breakdown_ms.values()), p.iteration_ms, delta=1e-6 * p.iteration_ms)
        self.assertTrue(p.fits)
        self.assertIsInstance(p.warnings, list)
        self.assertEqual(p["mfu"], p.mfu)

    def test_errors(self):
        for arguments, overrides, text in [
            ("none.yaml", {}, "none.yaml"),
            ({"modle": 1}, {}, 'did you mean "model"'),
            (GPT, {"parallel": {"tpp": 1}}, 'did you mean "parallel.tp"'),
            (GPT, {"parallel": {"tp": "many"}}, "parallel.tp"),
            (GPT, {"detail": "half"}, "coarse|full"),
        ]:
            with self.assertRaisesRegex(stepcast.StepcastError, text.replace("|", r"\|")):
                stepcast.predict(arguments, **overrides)

    def test_memory_of_the_host_counts(self):
        offload = {"offload": {"optimizer": "cpu"}, "optimizer": "adam"}
        for gib, fits in [(4096, True), (1, False)]:
            p = stepcast.predict(GPT, training=offload, cluster={"host_memory_gib": gib})
            self.assertLess(p.memory_gib["total"], p.memory_gib["capacity"])
            self.assertEqual(p.fits, fits)

    def test_text_is_any(self):
        with self.assertRaisesRegex(stepcast.StepcastError, "\U0001f600"):
            stepcast.predict({"gpus": "\U0001f600"})
        for ask in [
            lambda: stepcast.predict(GPT, **{"parallel.tp": "4\0 8"}),
            lambda: stepcast.predict(GPT + "\0x"),
            lambda: stepcast.predict(GPT, detail="full\0"),
        ]:
            with self.assertRaisesRegex(ValueError, "NUL"):
                ask()

    def test_a_run_costs(self):
        p = stepcast.predict(GPT, price=2, tokens=1e12)
        self.assertAlmostEqual(p["run_cost"]["usd"] / p["run_cost"]["gpu_hours"], 2, places=6)
        self.assertEqual(stepcast.predict(GPT, samples=100)["run_cost"]["steps"], 25)
        named = stepcast.predict(GPT, price=["h100-sxm-80gb=9", "a100-sxm-80gb=2"], tokens=1e12)
        self.assertEqual(named["run_cost"], p["run_cost"])
        self.assertLess(p.breakdown_ms["exposed_comm"], p.communication_ms)
        self.assertLess(p["low_ms"], stepcast.predict(GPT, confidence=50)["low_ms"])

    def test_threads(self):
        request = stepcast.Request(GPT)
        want = {tp: stepcast.predict(GPT, parallel={"tp": tp}).json for tp in (2, 4, 8)}
        got = []

        def ask(tp):
            got.append((tp, stepcast.Request(request, parallel={"tp": tp}).predict().json))

        threads = [threading.Thread(target=ask, args=(tp,)) for tp in (2, 4, 8) * 3]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(got), 9)
        self.assertTrue(all(text == want[tp] for tp, text in got))

    def test_a_call_costs_little(self):
        def raw():
            request = _native.call("request_file", GPT.encode())
            _native.call("request_set", request, b"parallel.tp", b"4")
            result = _native.call("predict", request, None, 0)
            _native.call("result_json", result)
            _native.call("result_free", result)
            _native.call("request_free", request)

        def cpu_s(ask):
            start = time.thread_time()
            ask()
            return time.thread_time() - start

        def ours():
            return stepcast.predict(GPT, parallel={"tp": 4}).iteration_ms

        pairs = [(cpu_s(ours), cpu_s(raw)) for _ in range(40)]
        self.assertLess(min(p[0] for p in pairs), 2 * min(p[1] for p in pairs))


class Sweep(unittest.TestCase):
    GRID = {"parallel.tp": [1, 2, 4, 8], "training.micro_batch": [1, 2]}

    def test_rows_are_the_commands(self):
        lines = command("sweep", GPT, "--grid", "parallel.tp=1,2,4,8", "--grid", "training.micro_batch=1,2")
        lines = lines.splitlines()
        names = lines[0].split(",")
        rows = stepcast.rows(GPT, grid=self.GRID, jobs=2)
        self.assertEqual(len(rows), len(lines) - 1)
        for row, line in zip(rows, lines[1:]):
            self.assertEqual(list(row), names)
            self.assertEqual(str(row["parallel.tp"]), line.split(",")[0])
            if row["iteration_ms"] is not None:
                self.assertAlmostEqual(row["iteration_ms"], float(line.split(",")[2]), places=5)
        self.assertIn("less than", rows[0]["error"])

    def test_errors(self):
        with self.assertRaisesRegex(stepcast.StepcastError, "either --table or --grid"):
            stepcast.rows(GPT)
        with self.assertRaisesRegex(stepcast.StepcastError, "cannot have a comma"):
            stepcast.rows(GPT, grid={"model": ["a,b.yaml"]})

    def test_without_pandas(self):
        with unittest.mock.patch.dict(sys.modules, {"pandas": None}):
            with self.assertRaisesRegex(ImportError, r"^sweep\(\) needs pandas: pip install pandas, or use rows\(\)"):
                stepcast.sweep(GPT, grid=self.GRID)
            with self.assertRaisesRegex(ImportError, r"^to_pandas\(\) needs pandas: pip install pandas, or use to_dict\(\)"):
                stepcast.scale(GPT, gpus="8", options={"given": True}).to_pandas()
            self.assertEqual(len(stepcast.rows(GPT, grid=self.GRID)), 8)

    @unittest.skipIf(missing("pandas"), "no pandas")
    def test_frames(self):
        frame = stepcast.sweep(GPT, grid=self.GRID)
        self.assertEqual(len(frame), 8)
        cases = frame[["parallel.tp", "training.micro_batch"]].assign(case=range(8))
        again = stepcast.sweep(GPT, table=cases)
        self.assertEqual(list(again["case"]), [str(i) for i in range(8)])  # no key: text
        self.assertTrue(frame["iteration_ms"].equals(again["iteration_ms"]))


class Tutorial(unittest.TestCase):
    @unittest.skipIf(missing("pandas"), "no pandas")
    def test_its_program_runs(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        with open(os.path.join(root, "docs", "tutorial.md"), encoding="utf-8") as file:
            program = file.read().split("```python\n")[1].split("```")[0]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(program, {})
        self.assertIn("<Prediction", out.getvalue())


class Shard(unittest.TestCase):
    def test_is_the_commands(self):
        want = command("shard", DLRM, "--search", "0", "--draws", "0", "--json")
        got = stepcast.shard(DLRM, search=0, draws=0)
        self.assertEqual(got.json, want)
        self.assertEqual(got.best["name"], got.plans[0]["name"])
        self.assertEqual(len(got.plan["embeddings"]), got["n_tables"])

    def test_options(self):
        got = stepcast.shard(DLRM, baseline=["torchrec", "naive"], draws=0, options={"seed": 2})
        self.assertEqual({p["name"] for p in got.plans}, {"torchrec", "naive"})
        one = stepcast.shard(DLRM, baseline="torchrec", draws=0, training={"recompute": "full"})
        self.assertIn("recompute has no effect", one.warnings[0])
        self.assertEqual([p["name"] for p in one.plans], ["torchrec"])
        with self.assertRaisesRegex(stepcast.StepcastError, "unknown option"):
            stepcast.shard(DLRM, options={"serach": 1})


class Studies(unittest.TestCase):
    def test_are_the_commands(self):
        pair = {"gemm": "8192,8192,8192,bf16", "collective": "all_reduce:67108864", "device": "h100-sxm-80gb"}
        for study, words in [
            (stepcast.search(GPT, choose={"parallel.tp": [4, 8]}, gpus="8:8"), ["search", GPT, "--choose", "parallel.tp=4,8", "--gpus", "8:8"]),
            (stepcast.scale(GPT, gpus="8:16"), ["scale", GPT, "--gpus", "8:16"]),
            (stepcast.compare(GPT, stepcast.example("gpt-18.4b-selene")), ["compare", GPT, stepcast.example("gpt-18.4b-selene")]),
            (stepcast.c3(options=pair), ["c3", *(w for k, v in pair.items() for w in ("--" + k, v))]),
            (stepcast.collective("all_reduce", device="h100-sxm-80gb"), ["collective", "all_reduce", "--device", "h100-sxm-80gb"]),
            (stepcast.schedule("1f1b", "zb-h1", pp=4, micro_batches=8, times="f=1,b=1,w=1"),
             ["schedule", "1f1b", "zb-h1", "--pp", "4", "--micro-batches", "8", "--times", "f=1,b=1,w=1"]),
        ]:
            self.assertEqual(study.to_dict(), json.loads(command(*words, "--json", "-q")))
            self.assertTrue(repr(study).startswith("<Study "))
            self.assertIn("<html", study.page())
            self.assertIn("<iframe", study._repr_html_())

    def test_take_mappings_and_keys(self):
        one = stepcast.compare({"cluster": {"gpu": "a100-sxm-80gb"}, "gpus": 8, "model": "models/gpt-22b.yaml", "parallel": {"tp": 8},
                                "training": {"global_batch": 8}}, GPT, parallel={"sequence_parallel": False})
        self.assertEqual(one["schema"], "stepcast/compare")
        with self.assertRaisesRegex(stepcast.StepcastError, 'did you mean "parallel.tp"'):
            stepcast.compare(GPT, GPT, parallel={"tpp": 1})
        with self.assertRaisesRegex(stepcast.StepcastError, "unknown option"):
            stepcast.search(GPT, options={"chose": "x"})

    def test_pages_of_predictions(self):
        self.assertIn("<html", stepcast.predict(GPT).page())

    @unittest.skipIf(missing("pandas"), "no pandas")
    def test_lists_as_frames(self):
        self.assertGreater(len(stepcast.shard(DLRM, search=0, draws=0).to_pandas("plans")), 1)
        self.assertEqual(list(stepcast.scale(GPT, gpus="8", options={"given": True}).to_pandas()["gpus"]), [8])


class Command(unittest.TestCase):
    def test_is_not_itself(self):
        environment = {k: v for k, v in os.environ.items() if k != "STEPCAST"}
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "stepcast")
            with open(script, "w", encoding="utf-8") as file:
                file.write(f"#!{sys.executable}\nfrom stepcast._command import main\nmain()\n")
            os.chmod(script, 0o755)
            environment["PATH"] = folder
            done = subprocess.run([script], env=environment, capture_output=True, text=True, timeout=60)
            self.assertIn("$STEPCAST", done.stderr)
            environment["PATH"] += os.pathsep + os.path.dirname(os.environ["STEPCAST"])
            done = subprocess.run([script, "--version"], env=environment, capture_output=True, text=True, timeout=60)
            self.assertIn("stepcast", done.stdout)

    def test_no_configs(self):
        with unittest.mock.patch("os.path.isdir", return_value=False):
            with self.assertRaisesRegex(stepcast.StepcastError, "STEPCAST_CONFIGS"):
                stepcast.configs()


class Profiler(unittest.TestCase):
    def test_reads_a_trace(self):
        import stepcast.profiler

        events = []
        for step in range(3):
            at = 1000 * step
            name = f"ProfilerStep#{step}"
            events.append({"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 900})
            launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
            events.append({**launch, "ts": at + 10, "dur": 5, "args": {"correlation": step + 1}})
            kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 50, "dur": 500}
            events.append({**kernel, "args": {"correlation": step + 1, "stream": 7, "device": 0}})
        with tempfile.TemporaryDirectory() as folder:

            class Profile:
                def export_chrome_trace(self, path):
                    with gzip.open(path, "wt") as file:
                        json.dump({"schemaVersion": 1, "traceEvents": events}, file)

            stepcast.profiler.trace_handler(folder + "/traces", rank=0)(Profile())
            read = stepcast.profiler.read(folder + "/traces", folder + "/run")
            self.assertEqual(read["files"][0]["kernels"], 3)
            self.assertIn("iterations", stepcast.profiler.replay(folder + "/run").values)
            with self.assertRaises(stepcast.StepcastError):
                stepcast.profiler.read(folder + "/none.json", folder + "/run")


class TorchRec(unittest.TestCase):
    def test_costs(self):
        from stepcast.torchrec import ShardEstimator

        estimator = ShardEstimator(DLRM)
        whole = estimator.cost("cat_0", "table_wise", "fused", 40000000, 128)
        half = estimator.cost("cat_0", "twcw", "dense", 40000000, 64)
        self.assertGreater(whole.forward_ms, half.forward_ms)
        with self.assertRaisesRegex(stepcast.StepcastError, "no table"):
            estimator.cost("dog_0", "table_wise", "fused", 1, 1)

    @unittest.skipIf(missing("torchrec"), "torchrec is not there, or does not load")
    def test_planner_takes_our_times(self):
        from torchrec_plan import plan_with

        plan = plan_with(DLRM, ours=True)
        self.assertEqual(len(plan), 26)


if __name__ == "__main__":
    unittest.main()
