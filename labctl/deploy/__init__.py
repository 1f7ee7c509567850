"""Deployment: the workloads' programs onto the targets: compiled there, or brought there.

``deploy`` converges any number of targets; ``is_current`` tells by one command, without
Ansible, that nothing needs to be done, ``summary`` says it in words.
"""

from labctl.deploy.converge import deploy
from labctl.deploy.job import DeployResult
from labctl.deploy.state import is_current, summary

__all__ = ["DeployResult", "deploy", "is_current", "summary"]
