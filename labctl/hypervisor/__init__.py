"""Guests under libvirt and QEMU.

    connection  which libvirt, and a connection to it
    domain      define, start, ask, stop one guest (what it is: ``spec``)
    ports       loopback ports for guests' SSH
    console     what the serial console says (what its lines mean: ``boot_steps``)
    accel       whether KVM really runs guests on this host

Below them: ``embedded`` and ``worker`` (libvirt without a daemon), ``proof`` (the
tiny guest), ``libvirt_api`` (the binding). Images come from ``labctl.images``;
a guest is reached by ``labctl.targets.vm``.
"""
