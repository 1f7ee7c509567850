"""labctl: is it the kernel, or is it the virtualization?

The layers, each importing only what stands below it::

    cli        verbs: arguments in; tables, progress and exit codes out
    report     a run as a table, a page, JSON
    stats      pure: arrays in, effects and warnings out
    sweep      plan (pure) -> journal (append-only) <- runner
    deploy     Ansible                observe   facts of a machine
    targets    local, ssh, vm         workloads manifests, batch protocol
    images     guest disks            hypervisor libvirt, accelerator proof
    lab        lab.yaml as a typed model; errors, paths
"""

__version__ = "0.1.0"
