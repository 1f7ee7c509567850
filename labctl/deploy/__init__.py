"""Deployment: the workloads' sources onto the targets, compiled there, by Ansible.

``deploy`` converges any number of targets; ``is_current`` tells by one command, without
Ansible, that nothing needs to be done.
"""

from labctl.deploy.converge import DeployResult, deploy
from labctl.deploy.state import is_current

__all__ = ["DeployResult", "deploy", "is_current"]
