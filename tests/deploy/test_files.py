"""What is deployed: that the files are what they claim to be, and agree with the product."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from lingua_scheduler.config import load
from lingua_scheduler.config.load import LEAVES, env_name
from lingua_scheduler.front.origins import Origins
from lingua_scheduler.operate.workers import patience_s

if TYPE_CHECKING:
    from lingua_scheduler.config import Loaded

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CHART: Final = DEPLOY / "helm" / "lingua-scheduler"
UNIT: Final = DEPLOY / "systemd" / "lingua-scheduler@.service"
HOSTS: Final = "LINGUA_SERVER__ALLOWED_HOSTS"
SETTINGS: Final = {env_name(key) for key in LEAVES}


def variables_in(path: Path) -> set[str]:
    return set(re.findall(r"\bLINGUA_[A-Z]+__[A-Z_]+", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "path", sorted(path for path in DEPLOY.rglob("*") if path.is_file()), ids=lambda path: path.name
)
def test_every_setting_that_is_named_exists(path: Path) -> None:
    assert variables_in(path) <= SETTINGS


def test_the_sample_settings_are_taken() -> None:
    loaded = load(DEPLOY / "systemd" / "config.toml", env={}, flags={"server": {"port": 5011}})
    settings = loaded.settings
    assert (settings.server.host, settings.server.port) == ("0.0.0.0", 5011)  # noqa: S104 - it is only compared


def test_the_unit_is_one() -> None:
    """Of what it says only that its program is not installed here may be wrong."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd on this machine")
    unit = str(UNIT)
    said = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False).stderr
    complaints = [line for line in said.splitlines() if "lingua-scheduler@" in line]
    assert [line for line in complaints if "is not executable" not in line] == []


def composed() -> dict[str, Any]:
    said: dict[str, Any] = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text(encoding="utf-8"))
    return said


def test_the_composed_instances_share_an_engine_and_have_names_of_their_own() -> None:
    services = composed()["services"]
    schedulers = [service for name, service in services.items() if name.startswith("scheduler")]
    assert {one["environment"]["LINGUA_ENGINE__URL"] for one in schedulers} == {"redis://valkey:6379/0"}
    assert len({one["environment"]["LINGUA_INSTANCE__ID"] for one in schedulers}) == len(schedulers) == 2
    assert "noeviction" in services["valkey"]["command"]


def is_called(loaded: Loaded, *names: str) -> bool:
    """Whether somebody who calls by any of these names is heard, and no name is enough."""
    origins = Origins(loaded.settings.server)
    assert origins.check("evil.example:5010", None) is not None
    return all(origins.check(host, None) is None for name in names for host in (name, f"{name}:5010"))


def test_the_composed_instances_are_called_by_the_names_of_their_services() -> None:
    services = {name: one for name, one in composed()["services"].items() if name.startswith("scheduler")}
    for service in services.values():
        for given in ("", "a.example,b.example"):
            said = re.sub(r"\$\{LINGUA_ALLOWED_HOSTS:-\}", given, service["environment"][HOSTS])
            loaded = load(env={HOSTS: said}, flags={"server": {"host": "0.0.0.0"}})  # noqa: S104 - as in the image
            assert is_called(loaded, *services, "localhost", *filter(None, given.split(",")))


def test_the_sample_settings_show_how_it_gets_a_name(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "config.toml").read_text(encoding="utf-8")
    file = tmp_path / "config.toml"
    file.write_text(text.replace("# allowed_hosts", "allowed_hosts"), encoding="utf-8")
    assert is_called(load(file, env={}), "scheduler.example.com", "10.0.0.1")


def hosts_of_the_chart(*others: str) -> str:
    """What the chart renders for a release `it` in a namespace `here`, with these `allowedHosts`."""
    text = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    (names,) = re.findall(r'define "lingua.hosts".*?(^\{\{ \$name \}\}.*)\n\{\{- range', text, re.DOTALL | re.MULTILINE)
    assert "{{- range .Values.allowedHosts }},{{ . }}{{ end -}}" in text
    name = "it-lingua-scheduler"
    named: str = names.replace("{{ $name }}", name).replace("{{ $in }}", f"{name}.here")
    return ",".join([named, *others])


def test_the_instances_of_the_chart_are_called_by_the_names_of_their_service(tmp_path: Path) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    file = tmp_path / "config.toml"
    file.write_text(values["config"], encoding="utf-8")
    assert values["allowedHosts"] == []
    text = (CHART / "templates" / "environment.yaml").read_text(encoding="utf-8")
    assert f'{HOSTS}: {{{{ include "lingua.hosts" . | quote }}}}' in text
    loaded = load(file, env={HOSTS: hosts_of_the_chart("lingua.example.com")})
    # As Kubernetes names a service: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
    name = "it-lingua-scheduler"
    names = [name, *(f"{name}.here{end}" for end in ("", ".svc", ".svc.cluster.local"))]
    assert is_called(loaded, *names, "lingua.example.com", "10.1.2.3")


def test_everybody_has_the_time_to_hand_over() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    unit = UNIT.read_text(encoding="utf-8")
    given = [
        values["terminationGracePeriodSeconds"],
        int(re.findall(r"TimeoutStopSec=(\d+)", unit)[0]),
        int(composed()["services"]["scheduler-1"]["stop_grace_period"].removesuffix("s")),
    ]
    assert all(seconds >= patience_s(load(env={}).settings) for seconds in given)


def test_the_chart_asks_only_for_values_that_it_has() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert tomllib.loads(values["config"])["server"]["port"] == 5010
    asked = {
        name
        for template in (CHART / "templates").iterdir()
        for name in re.findall(r"\.Values\.([A-Za-z.]+)", template.read_text(encoding="utf-8"))
    }
    for name in asked:
        found: Any = values
        for part in name.split("."):
            assert part in found, name
            found = found[part]


def template(name: str) -> dict[str, Any]:
    """One of the chart, with nothing filled in."""
    text = (CHART / "templates" / name).read_text(encoding="utf-8")
    text = re.sub(r"^ *\{\{-? (?:with|if|end)\b.*\}\}$", "", text, flags=re.MULTILINE)
    said: dict[str, Any] = yaml.safe_load(re.sub(r"\{\{-?.*?\}\}", "filled", text))
    return said


def test_the_secret_of_the_chart_counts_more_than_its_values() -> None:
    """Kubernetes: what is in `env` counts more than what is in `envFrom`, and there the last source counts most."""
    (container,) = template("deployment.yaml")["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in container["env"]] == ["LINGUA_INSTANCE__ID"]
    assert [list(source) for source in container["envFrom"]] == [["configMapRef"], ["secretRef"]]
    assert container["envFrom"][0]["configMapRef"]["name"] == template("environment.yaml")["metadata"]["name"]
    assert list(template("environment.yaml")["data"]) == ["LINGUA_ENGINE__URL", HOSTS]


def test_the_token_of_the_chart_s_prometheus_is_a_token_alone() -> None:
    """Not a setting, which may have several, and names before them; and who makes the secret is told of both."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    key = yaml.safe_load(text)["serviceMonitor"]["tokenKey"]
    assert not key.startswith("LINGUA_")
    assert f"--from-literal={key}=" in text
    assert "--from-literal=LINGUA_AUTH__METRICS_TOKENS=" in text


def test_the_chart_has_the_version_of_the_package() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == project["version"]


def test_whatever_prometheus_scrapes_has_an_address_of_its_own() -> None:
    """Workers share a port, and whichever takes the call tells its own numbers."""
    for path in DEPLOY.rglob("*"):
        assert not path.is_file() or "--workers" not in path.read_text(encoding="utf-8"), path
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text(encoding="utf-8"))["scrape_configs"]
    targets = {target for job in scraped for one in job["static_configs"] for target in one["targets"]}
    unit = UNIT.read_text(encoding="utf-8")
    assert re.findall(r"^ExecStart=.* --port %i$", unit, re.MULTILINE)
    enabled = re.findall(r"lingua-scheduler@(\d+)", unit)
    assert targets == {f"127.0.0.1:{port}" for port in enabled}
    published = {
        target.rsplit(":", 1)[0] for service in composed()["services"].values() for target in service.get("ports", [])
    }
    assert targets == published


def test_helm_renders_the_chart() -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("there is no helm on this machine, and no registry of Python's or Debian's has one")
    environment = os.environ | {"HELM_CACHE_HOME": "/nonexistent"}
    subprocess.run([helm, "lint", "--strict", str(CHART)], check=True, capture_output=True, env=environment)
    for flags in ((), ("--set", "serviceMonitor.enabled=true,allowedHosts={lingua.example.com}")):
        done = subprocess.run(
            [helm, "template", "it", str(CHART), "--namespace=here", *flags],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        )
        made = [one for one in yaml.safe_load_all(done.stdout) if one]
        (hosts,) = {one["data"][HOSTS] for one in made if HOSTS in one.get("data", {})}
        assert hosts == hosts_of_the_chart(*(("lingua.example.com",) if flags else ()))
        kinds = {one["kind"] for one in made}
        assert {"Deployment", "Service", "ConfigMap", "PodDisruptionBudget"} <= kinds
        assert ("ServiceMonitor" in kinds) == bool(flags)
