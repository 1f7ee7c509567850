"""The lab file on the page is one that labctl reads, and has no keys in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from labctl.lab.model import Lab
from labctl.report.labfile import lab_file
from labctl.report.model import ReportModel
from tests.report.synthetic import make_header
from tests.report.test_reader import markdown, page, report, terminal

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "sim.yaml"
TEMPLATE = Path(__file__).parents[2] / "labctl" / "lab" / "template.py"
ALL = """
lab: all
defaults: {vcpus: 4, memory: 2GiB}
hypervisors:
  local: {uri: auto}
  far: {uri: 'qemu+ssh://me:hunter2@far.example/system?keyfile=/home/me/.ssh/far&no_tty=1'}
targets:
  metal: {kind: local, workdir: /var/tmp/lab}
  box: {kind: ssh, host: 192.0.2.7, identity: ~/.ssh/secret, known_hosts: /etc/hidden,
        workdir: /var/tmp/x, reboot: true}
  linux: {kind: vm, image: debian-12, memory: 512MiB, cmdline: 'quiet a="b: c"',
          hardware: {smbios_product: ''}}
  older: {kind: vm, image: debian-12, hypervisor: far, kernel: debian/bullseye}
  built: {kind: vm, image: debian-12, kernel: {image: ./bzImage, modules: ./staging}}
  bsd: {kind: vm, image: freebsd-9.3, tunables: {kern.hz: 100}}
pairs: [{guest: linux, metal: metal}, {kernel: linux, against: older}]
margin: 7.5%
nightly: {workloads: [kqtest], threads: [1, 2], params: {rearm: [edge]}, design: {rounds: 4}}
"""


def written(text: str) -> str:
    lab = Lab.model_validate(yaml.safe_load(text))
    return lab_file(make_header(lab=lab.model_dump(mode="json", exclude={"path"})))


def read(text: str) -> dict[str, Any]:
    return Lab.model_validate(yaml.safe_load(text)).model_dump(mode="json", exclude={"path"})


@pytest.mark.parametrize("margin", ["0.1%", "7%", "10%", "12.345%", "100%"])
def test_what_is_shown_is_read_as_the_same_lab(margin: str) -> None:
    text = EXAMPLE.read_text("utf-8") + f"\nmargin: {margin}\n"
    assert read(written(text)) == read(text)


def test_a_lab_with_everything_loses_its_keys_alone() -> None:
    text = written(ALL)
    for secret in ("secret", "hidden", "hunter2", "/home/me"):
        assert secret not in text
    assert text.startswith("# left out: identity of box\n# left out: known_hosts of box\n")
    mine, shown = read(ALL), read(text)
    assert shown["hypervisors"]["far"]["uri"] == "qemu+ssh://me@far.example/system?no_tty=1"
    for lab in (mine, shown):
        del lab["hypervisors"]["far"]
        lab["targets"]["box"] |= {"identity": None, "known_hosts": None}
    assert shown == mine


@pytest.mark.parametrize("lab", [{}, {"lab": "imported"}, {"targets": {}}, {"targets": [1]}])
def test_a_journal_without_a_lab_has_none(lab: dict[str, Any]) -> None:
    assert lab_file(make_header(lab=lab)) == ""


def test_what_a_lab_file_holds_cannot_begin_a_line_or_steer() -> None:
    evil = "x\nlab: other\x1b[31m\u202e\u2028"
    text = lab_file(make_header(lab={"lab": evil, "targets": {evil: {"kind": evil}}}))
    assert all(line.isprintable() for line in text.split("\n"))
    assert not any(line.startswith("lab: other") for line in text.split("\n"))


def with_lab(lab: dict[str, Any]) -> ReportModel:
    return report(lab=lab | {"pairs": [{"guest": "linux", "metal": "metal"}]})


def test_it_stands_where_the_commands_are() -> None:
    model = with_lab({"lab": "x", "targets": {"linux": {"kind": "vm", "image": "debian-12"}}})
    for form in (page, markdown):
        text = form(model)
        assert "linux: {kind: vm, image: debian-12}" in text[text.rindex("To repeat it") :]
        assert f"with labctl {model.runs[0].labctl}" in text
        assert "The lab file was not recorded" in form(report())
    assert "image: debian-12" not in terminal(model)


def test_two_runs_with_one_lab_file_show_it_once() -> None:
    lab = {"lab": "x", "targets": {"linux": {"kind": "vm", "image": "debian-12"}}}
    one = with_lab(lab)
    run = one.runs[0]
    both = [run.model_copy(update={"label": label}) for label in ("baseline", "new")]
    for form in (page, markdown):
        text = form(one.model_copy(update={"runs": both}))
        assert text.count("image: debian-12}") == 1
        assert "The lab file is that of baseline." in text
        assert text[text.rindex("To repeat it") :].count(f"with labctl {run.labctl}") == 2
        other = both[1].model_copy(update={"lab_file": "lab: y"})
        assert "lab: y" in form(one.model_copy(update={"runs": [both[0], other]}))
