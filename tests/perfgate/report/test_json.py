import dataclasses
import json

from perfgate.codec import decode
from perfgate.model import CaseResult, GateResult, ProfileNode, Run, Span
from perfgate.report.json import gate_json, history_json, import_json, run_json, runs_json
from tests.perfgate.report import samples


def test_a_run_decodes_as_the_run_without_its_attachments():
    plain = samples.suite_run()
    heavy = dataclasses.replace(
        plain,
        results=tuple(
            dataclasses.replace(r, profile=ProfileNode("case"), timeline=(Span("pe", "op", 0, 1),))
            for r in plain.results
        ),
    )

    data = json.loads(run_json(heavy))

    assert (data["kind"], data["schema_version"]) == ("run", 1)
    assert decode(Run, data["run"]) == plain


def test_a_comparison_decodes_with_runs_as_headers():
    result = samples.gate_result()
    full = dataclasses.replace(result, head=samples.suite_run())

    data = json.loads(gate_json(full, exit_code=1))

    decoded = decode(GateResult, data["gate"])
    assert data["exit_code"] == 1
    assert decoded.verdicts == result.verdicts
    assert decoded.head == dataclasses.replace(samples.suite_run(), results=())


def test_a_history_keeps_every_run():
    data = json.loads(history_json("kernels.matmul", samples.history((1.0, 2.0))))

    assert data["case_id"] == "kernels.matmul"
    assert [decode(Run, p["run"]).run_id for p in data["points"]] == ["r01", "r02"]
    assert decode(CaseResult, data["points"][1]["result"]).samples[0].values == (2.0,)


def test_lists_of_runs_have_no_results():
    listed = json.loads(runs_json((samples.suite_run(),)))
    imported = json.loads(import_json((samples.suite_run(),)))

    assert "results" not in listed["runs"][0]
    assert imported["runs"][0]["cases"] == 5
